"""What was seen of a job's memory, and how often it is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.sample import MemoryReading, Sample, SampleClock, thin
from outgrow.core.units import GIB, MIB

usages = st.lists(st.integers(0, GIB), max_size=60)


@pytest.mark.parametrize(
    ("usage", "clean", "dirty", "own"),
    [
        pytest.param(100, 0, 0, 100, id="nothing cached"),
        pytest.param(100, 30, 20, 50, id="some of both"),
        pytest.param(100, 100, 0, 0, id="all cache"),
        pytest.param(100, 90, 20, 0, id="counters that were read a moment apart"),
    ],
)
def test_what_is_no_cache_is_the_jobs_own(usage: int, clean: int, dirty: int, own: int) -> None:
    assert MemoryReading(usage, clean, dirty).own == own


def test_memory_at_rest_is_looked_at_less_and_less() -> None:
    clock = SampleClock()
    clock.after(100 * MIB, GIB)
    intervals = [clock.after(100 * MIB, GIB) for _ in range(20)]
    assert intervals == sorted(intervals)
    assert intervals[0] == pytest.approx(0.15)
    assert intervals[-1] == SampleClock.LONGEST


@pytest.mark.parametrize(
    ("step", "quickens"),
    [
        pytest.param(GIB // 50 + 1, True, id="more than 2 % up"),
        pytest.param(-(GIB // 50) - 1, True, id="more than 2 % down"),
        pytest.param(GIB // 50, False, id="just 2 %"),
        pytest.param(0, False, id="at rest"),
    ],
)
def test_memory_that_moves_is_looked_at_at_once(step: int, quickens: bool) -> None:
    clock = SampleClock()
    for _ in range(20):
        clock.after(500 * MIB, GIB)
    expected = SampleClock.SHORTEST if quickens else SampleClock.LONGEST
    assert clock.after(500 * MIB + step, GIB) == expected


def test_a_tiny_limit_does_not_make_every_byte_a_move() -> None:
    clock = SampleClock()
    clock.after(1, 10)
    assert clock.after(2, 10) > SampleClock.SHORTEST


@given(usages, st.integers(0, GIB))
def test_the_interval_stays_in_its_bounds(seen: list[int], limit: int) -> None:
    clock = SampleClock()
    for usage in seen:
        assert SampleClock.SHORTEST <= clock.after(usage, limit) <= SampleClock.LONGEST


def samples_of(seen: list[int]) -> list[Sample]:
    return [Sample(float(at), usage, GIB) for at, usage in enumerate(seen)]


@pytest.mark.parametrize(
    ("seen", "most", "kept"),
    [
        pytest.param([1, 2, 3], 3, [1, 2, 3], id="few enough"),
        pytest.param([1, 9, 2, 8, 3], 3, [9, 8, 3], id="of each stretch the highest"),
        pytest.param([9, 1, 1, 1], 2, [9, 1], id="the peak and the last"),
        pytest.param([], 5, [], id="none"),
        pytest.param([5, 4, 3, 2, 1], 1, [5, 4, 3, 2, 1], id="fewer than two is no wish"),
    ],
)
def test_thin(seen: list[int], most: int, kept: list[int]) -> None:
    assert [sample.usage for sample in thin(samples_of(seen), most)] == kept


@given(usages, st.integers(2, 20))
def test_thinning_keeps_the_highest_and_the_last_and_their_order(
    seen: list[int], most: int
) -> None:
    samples = samples_of(seen)
    kept = thin(samples, most)
    assert len(kept) <= max(most, 0)
    assert [sample.at for sample in kept] == sorted({sample.at for sample in kept})
    assert set(kept) <= set(samples)
    if samples:
        assert kept[-1] == samples[-1]
        assert max(sample.usage for sample in kept) == max(seen)
