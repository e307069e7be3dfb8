"""PIDs for an engine that brings a job back beside it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outgrow.launcher.pids import ROOM, last_pid_before_gap

RESERVED = 300
"""RESERVED_PIDS of kernel/pid.c: where the kernel goes on after a wrap."""

crowds = st.sets(st.integers(0, 5000), max_size=80) | st.sets(
    st.integers(0, 60).map(lambda number: number * ROOM // 2), max_size=60
)


@pytest.mark.parametrize(
    ("taken", "last"),
    [
        pytest.param([], RESERVED, id="nothing"),
        pytest.param([1, 2, 7, 299, 300], RESERVED, id="the low ones"),
        pytest.param([301], 301, id="the first"),
        pytest.param([300 + ROOM], 300 + ROOM, id="one short of a gap"),
        pytest.param([301 + ROOM], RESERVED, id="a gap to the number"),
        pytest.param([301 + ROOM, 302 + ROOM, 5], RESERVED, id="behind the gap"),
        pytest.param([5000, 400, 310, 310], 400, id="in any order, twice"),
    ],
)
def test_the_gap_is_found(taken: list[int], last: int) -> None:
    assert last_pid_before_gap(taken, 32768) == last


@given(crowds)
@example({301 + ROOM * n for n in range(20)})
@example({300 + ROOM * n for n in range(20)})
def test_no_pid_that_the_engine_gets_is_the_jobs(taken: set[int]) -> None:
    last = last_pid_before_gap(taken, 1 << 22)
    assert not taken & set(range(last + 1, last + 1 + ROOM))
    assert last >= RESERVED


@given(crowds)
def test_there_is_no_lower_gap(taken: set[int]) -> None:
    last = last_pid_before_gap(taken, 1 << 22)
    for lower in range(RESERVED, last):
        assert taken & set(range(lower + 1, lower + 1 + ROOM))


@given(crowds, st.integers(600, 9000))
def test_the_gap_ends_below_the_largest_pid(taken: set[int], pid_max: int) -> None:
    try:
        last = last_pid_before_gap(taken, pid_max)
    except ValueError:
        assert last_pid_before_gap(taken, 1 << 22) + ROOM >= pid_max
    else:
        assert last + ROOM < pid_max
