"""What a job asks for next."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.errors import Usage
from outgrow.core.sizing import (
    DEFAULT_BAND,
    DEFAULT_NEXT_SIZE,
    NO_LIMIT,
    NextSize,
    band_for,
    next_limit,
    parse_next_size,
)
from outgrow.core.units import GIB, KIB, MIB, TIB

limits = st.integers(4 * MIB, 64 * TIB)
whole_mib = st.integers(4, 64 * TIB // MIB).map(lambda number: number * MIB)
rules = st.builds(
    NextSize, st.fractions(1, 64, max_denominator=1000), st.integers(0, TIB)
) | st.sampled_from([DEFAULT_NEXT_SIZE, NextSize(), NextSize(plus=1)])


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        pytest.param("1.5x", NextSize(Fraction(3, 2)), id="a factor"),
        pytest.param("2X", NextSize(Fraction(2)), id="upper case"),
        pytest.param(" 1.25x ", NextSize(Fraction(5, 4)), id="spaces"),
        pytest.param("64x", NextSize(Fraction(64)), id="the largest factor"),
        pytest.param("+8GiB", NextSize(plus=8 * GIB), id="a step"),
        pytest.param("+512M", NextSize(plus=512 * MIB), id="a step as in Slurm"),
        pytest.param("+ 1GiB", NextSize(plus=GIB), id="a space after the plus"),
    ],
)
def test_a_rule_is_read(text: str, rule: NextSize) -> None:
    assert parse_next_size(text) == rule


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("1x", "a factor above 1", id="no growth"),
        pytest.param("0.5x", "a factor above 1", id="shrinking"),
        pytest.param("0x", "a factor above 1", id="zero"),
        pytest.param("-2x", "a factor above 1", id="negative"),
        pytest.param("x", "a factor above 1", id="no number"),
        pytest.param("", "a factor above 1", id="empty"),
        pytest.param("2", "a factor above 1", id="bare"),
        pytest.param("8GiB", "+SIZE", id="a size without a plus"),
        pytest.param("²x", "a factor above 1", id="no decimal digit"),
        pytest.param("3/2x", "a factor above 1", id="a quotient"),
        pytest.param("1e9x", "a factor above 1", id="an exponent"),
        pytest.param("nanx", "a factor above 1", id="not a number"),
        pytest.param("64.1x", "at most 64x", id="absurd"),
        pytest.param("+8", "did you mean 8MiB", id="a bare step"),
        pytest.param("+8GB", "did you mean 8GiB", id="an ambiguous step"),
        pytest.param("+0G", "above zero", id="a step of nothing"),
        pytest.param("++8G", "512MiB", id="two signs"),
    ],
)
def test_a_rule_that_would_not_grow_is_refused(text: str, says: str) -> None:
    with pytest.raises(Usage) as error:
        parse_next_size(text)
    assert says in error.value.remedy


@pytest.mark.parametrize(
    "rule", [DEFAULT_NEXT_SIZE, NextSize(Fraction(5, 4)), NextSize(plus=8 * GIB), NextSize(plus=1)]
)
def test_a_rule_is_written_as_it_is_read(rule: NextSize) -> None:
    assert parse_next_size(str(rule)) == rule


@pytest.mark.parametrize(
    ("rule", "limit", "cap", "expected"),
    [
        pytest.param(DEFAULT_NEXT_SIZE, 256 * MIB, GIB, 384 * MIB, id="half as much again"),
        pytest.param(NextSize(plus=8 * GIB), GIB, 16 * GIB, 9 * GIB, id="a step"),
        pytest.param(DEFAULT_NEXT_SIZE, 256 * MIB, 300 * MIB, 300 * MIB, id="capped"),
        pytest.param(DEFAULT_NEXT_SIZE, 256 * MIB, 256 * MIB + 1, 256 * MIB + 1, id="a byte left"),
        pytest.param(DEFAULT_NEXT_SIZE, 256 * MIB, 256 * MIB, None, id="at the cap"),
        pytest.param(DEFAULT_NEXT_SIZE, 260 * MIB, 256 * MIB, None, id="above the cap"),
        pytest.param(DEFAULT_NEXT_SIZE, 5 * MIB, GIB, 8 * MIB, id="rounded up to a MiB"),
        pytest.param(NextSize(plus=KIB), 64 * MIB, GIB, 65 * MIB, id="a step below a MiB"),
        pytest.param(NextSize(), 64 * MIB, GIB, 65 * MIB, id="a rule that stands still"),
        pytest.param(DEFAULT_NEXT_SIZE, 64 * MIB, -1, None, id="a host too small for any job"),
    ],
)
def test_next_limit(rule: NextSize, limit: int, cap: int, expected: int | None) -> None:
    assert next_limit(rule, limit, cap) == expected


@given(rules, whole_mib, limits)
def test_the_next_limit_grows_within_the_cap_in_whole_mib(
    rule: NextSize, limit: int, cap: int
) -> None:
    following = next_limit(rule, limit, cap)
    if limit >= cap:
        assert following is None
        return
    assert following is not None
    assert limit < following <= cap
    assert following == cap or following % MIB == 0
    assert following >= min(cap, int(limit * rule.factor) + rule.plus)


def test_a_small_step_from_an_odd_limit_ends_on_a_whole_mib() -> None:
    assert NextSize(plus=KIB).after(64 * MIB + 1) % MIB == 0


@given(rules, limits, limits)
def test_a_larger_limit_is_followed_by_no_smaller_one(rule: NextSize, one: int, two: int) -> None:
    smaller, larger = sorted((one, two))
    assert rule.after(smaller) <= rule.after(larger)


@given(rules, limits)
def test_a_ladder_ends_at_its_cap(rule: NextSize, limit: int) -> None:
    cap = limit + 100 * MIB
    steps = 0
    while (following := next_limit(rule, limit, cap)) is not None:
        limit, steps = following, steps + 1
    assert limit == cap
    assert steps <= 101  # the first may be a part of a MiB


@pytest.mark.parametrize(
    ("limit", "wanted", "expected"),
    [
        pytest.param(GIB, DEFAULT_BAND, 32 * MIB, id="as wanted"),
        pytest.param(128 * MIB, DEFAULT_BAND, 32 * MIB, id="exactly a quarter"),
        pytest.param(64 * MIB, DEFAULT_BAND, 16 * MIB, id="a quarter of a small limit"),
        pytest.param(GIB, GIB, 256 * MIB, id="a quarter of a large band"),
        pytest.param(NO_LIMIT, DEFAULT_BAND, 32 * MIB, id="no limit"),
    ],
)
def test_the_band_is_at_most_a_quarter_of_the_limit(limit: int, wanted: int, expected: int) -> None:
    assert band_for(limit, wanted) == expected


def test_no_limit_is_what_the_kernel_says() -> None:
    # PAGE_COUNTER_MAX on 64-bit kernels with pages of 4 KiB, as memory.limit_in_bytes shows it.
    assert NO_LIMIT == 9223372036854771712
