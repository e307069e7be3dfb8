"""Round numbers on axes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.picture.axis import size_labels, size_ticks, time_labels, time_ticks

MIB = 1 << 20


@pytest.mark.parametrize(
    ("top", "labels"),
    [
        pytest.param(1, ["0", "1 B"], id="nothing much"),
        pytest.param(600 * MIB, ["0", "128 MiB", "256 MiB", "384 MiB", "512 MiB"], id="some MiB"),
        pytest.param(1100 * MIB, ["0", "256 MiB", "512 MiB", "768 MiB", "1 GiB"], id="a GiB"),
        pytest.param(1600 * MIB, ["0", "512 MiB", "1 GiB", "1.5 GiB"], id="a little more"),
        pytest.param(
            2**62, ["0", "1048576 TiB", "2097152 TiB", "3145728 TiB", "4194304 TiB"], id="absurd"
        ),
    ],
)
def test_sizes(top: int, labels: list[str]) -> None:
    assert size_labels(size_ticks(top, 5)) == labels


def test_sizes_are_written_exactly() -> None:
    assert size_labels([0, 1280 * MIB]) == ["0", "1.25 GiB"]


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        pytest.param(0.5, ["0", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s"], id="half a second"),
        pytest.param(1, ["0", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1 s"], id="a second"),
        pytest.param(32, ["0", "10 s", "20 s", "30 s"], id="seconds"),
        pytest.param(90, ["0", "30 s", "60 s", "90 s"], id="more than a minute"),
        pytest.param(1500, ["0", "5 min", "10 min", "15 min", "20 min", "25 min"], id="minutes"),
        pytest.param(7200, ["0", "30 min", "60 min", "90 min", "120 min"], id="two hours"),
        pytest.param(86_400, ["0", "6 h", "12 h", "18 h", "24 h"], id="a day"),
        pytest.param(20 * 86_400, ["0", "5 d", "10 d", "15 d", "20 d"], id="weeks"),
    ],
)
def test_times(span: float, labels: list[str]) -> None:
    assert time_labels(time_ticks(span, 5)) == labels


@given(st.floats(1e-9, 1e10), st.integers(1, 12))
def test_time_ticks_lie_within_the_span_and_are_not_too_many(span: float, at_most: int) -> None:
    ticks = time_ticks(span, at_most)
    assert ticks[0] == 0
    assert len(ticks) <= at_most + 1
    assert all(tick <= span * (1 + 1e-6) for tick in ticks)
    assert len(set(time_labels(ticks))) == len(ticks)


@given(st.floats(1, 2.0**64), st.integers(1, 12))
def test_size_ticks_lie_within_the_top_and_are_not_too_many(top: float, at_most: int) -> None:
    ticks = size_ticks(top, at_most)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= at_most + 1
    assert ticks[-1] <= top
    assert len(set(size_labels(ticks))) == len(ticks)
