"""What a crossing is, and which rung of the ladder holds."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.decide import (
    Crossing,
    Decision,
    Grow,
    Keep,
    Leave,
    Move,
    Situation,
    Warn,
    cache_target,
    judge_crossing,
    next_rung,
    only_dirty_cache,
)
from outgrow.core.policy import SMALLEST_LIMIT, Action, LimitPolicy
from outgrow.core.sample import MemoryReading
from outgrow.core.units import GIB, MIB

WARN, GROW, MOVE, LEAVE = Action.WARN, Action.GROW, Action.MOVE, Action.LEAVE
LIMIT, BAND = 256, 32  # in MiB: guarded from 224, quiet below 216

readings = st.builds(
    MemoryReading,
    st.integers(0, 512 * MIB),
    st.integers(0, 256 * MIB),
    st.integers(0, 256 * MIB),
)


@pytest.mark.parametrize(
    ("usage", "clean", "dirty", "expected"),
    [
        pytest.param(223, 0, 0, Crossing.FALSE, id="below the band"),
        pytest.param(100, 90, 0, Crossing.FALSE, id="far below"),
        pytest.param(224, 0, 0, Crossing.GROWTH, id="all of it its own, at the band"),
        pytest.param(256, 0, 0, Crossing.GROWTH, id="at the limit"),
        pytest.param(230, 10, 0, Crossing.GROWTH, id="too little cache to help"),
        pytest.param(230, 13, 0, Crossing.GROWTH, id="a MiB short of a quarter of a band"),
        pytest.param(230, 14, 0, Crossing.CACHE, id="cache down to a quarter of a band below"),
        pytest.param(256, 250, 0, Crossing.CACHE, id="a job that streams a file"),
        pytest.param(256, 0, 250, Crossing.GROWTH, id="dirty cache cannot be dropped at once"),
        pytest.param(256, 39, 210, Crossing.GROWTH, id="mostly dirty cache"),
        pytest.param(300, 120, 0, Crossing.CACHE, id="over the limit, with cache"),
    ],
)
def test_a_crossing_is_judged(usage: int, clean: int, dirty: int, expected: Crossing) -> None:
    reading = MemoryReading(usage * MIB, clean * MIB, dirty * MIB)
    assert judge_crossing(reading, LIMIT * MIB, BAND * MIB) is expected


@given(readings, st.integers(64 * MIB, GIB))
def test_dropping_the_cache_that_was_blamed_ends_the_crossing(
    reading: MemoryReading, limit: int
) -> None:
    band = limit // 4
    if judge_crossing(reading, limit, band) is Crossing.CACHE:
        kept = reading.usage - reading.clean_cache
        assert kept < cache_target(kept, limit, band) < limit - band
        dropped = MemoryReading(reading.usage - reading.clean_cache, 0, reading.dirty_cache)
        assert judge_crossing(dropped, limit, band) is Crossing.FALSE


@pytest.mark.parametrize(
    ("usage", "clean", "dirty", "expected"),
    [
        pytest.param(256, 0, 0, False, id="all of it its own"),
        pytest.param(256, 0, 39, False, id="a MiB too much of its own"),
        pytest.param(256, 0, 40, True, id="unwritten pages down to a quarter of a band below"),
        pytest.param(256, 30, 10, True, id="together with clean ones"),
        pytest.param(192, 0, 0, True, id="it has shrunk meanwhile"),
    ],
)
def test_unwritten_file_pages_are_no_growth(
    usage: int, clean: int, dirty: int, expected: bool
) -> None:
    reading = MemoryReading(usage * MIB, clean * MIB, dirty * MIB)
    assert only_dirty_cache(reading, LIMIT * MIB, BAND * MIB) is expected


# The ladder. Under 1.5x and a cap of 2 GiB:
BELOW = "below its cap"
NEAR = "so near its cap that the next size is the cap"
AT_CAP = "at its cap"
HOST = "at the host's cap, below its own"
ROOM, NO_ROOM = 4 * GIB, 0
SITUATIONS = {
    BELOW: (GIB, 64 * GIB, 1536 * MIB),
    NEAR: (1800 * MIB, 64 * GIB, 2 * GIB),
    AT_CAP: (2 * GIB, 64 * GIB, None),
    HOST: (GIB, GIB, None),
}
END = {AT_CAP: "it reached --max-memory", HOST: "this host has no more memory to give"}

ladders = [ladder for n in range(1, 5) for ladder in permutations(Action, n)]
some_tried = [frozenset(tried) for n in range(5) for tried in combinations(Action, n)]


def expected_rung(
    action: Action, following: int | None, growth_fits: bool, where: str
) -> Decision | None:
    """What one action of a ladder comes to; None when it cannot hold."""
    if action is WARN:
        return Warn(10, 7.5)
    if action is LEAVE:
        return Leave("the policy says so")
    if action is GROW:
        return Grow(following) if following is not None and growth_fits else None
    return Move(following) if following is not None else Keep(END[where])


@pytest.mark.parametrize("room", [ROOM, NO_ROOM], ids=["room", "no room"])
@pytest.mark.parametrize("where", SITUATIONS)
def test_every_ladder_in_every_situation(where: str, room: int) -> None:
    limit, host_cap, following = SITUATIONS[where]
    for ladder in ladders:
        policy = LimitPolicy(64 * MIB, 2 * GIB, on_limit=ladder, warn_signal=10, warn_grace=7.5)
        for tried in some_tried:
            rungs = [
                expected_rung(action, following, room == ROOM, where)
                for action in ladder
                if action not in tried
            ]
            holding = [rung for rung in rungs if rung is not None]
            expected = holding[0] if holding else Leave("no action of the ladder can hold")
            assert next_rung(policy, Situation(limit, room, tried, host_cap)) == expected


@pytest.mark.parametrize(
    ("ladder", "limit", "room", "tried", "expected"),
    [
        pytest.param((GROW, MOVE), 1024, 512, "", Grow(1536 * MIB), id="room to the byte"),
        pytest.param((GROW, MOVE), 1024, 511, "", Move(1536 * MIB), id="too little room"),
        pytest.param((GROW, MOVE), 1024, 512, "grow", Move(1536 * MIB), id="growing failed"),
        pytest.param((GROW,), 1024, 0, "", Leave("no action of the ladder can hold"), id="alone"),
        pytest.param((MOVE,), 2048, 0, "", Keep("it reached --max-memory"), id="the last save"),
        pytest.param(
            (MOVE,), 2048, 0, "move", Leave("no action of the ladder can hold"), id="nor that"
        ),
        pytest.param((MOVE, LEAVE), 1024, 0, "move", Leave("the policy says so"), id="to leave"),
        pytest.param((WARN, MOVE), 1024, 0, "warn", Move(1536 * MIB), id="warned before"),
    ],
)
def test_the_ladder_by_example(
    ladder: tuple[Action, ...], limit: int, room: int, tried: str, expected: Decision
) -> None:
    policy = LimitPolicy(64 * MIB, 2 * GIB, on_limit=ladder)
    actions = frozenset(Action(word) for word in tried.split())
    situation = Situation(limit * MIB, room * MIB, actions, 64 * GIB)
    assert next_rung(policy, situation) == expected


@given(
    st.sampled_from(ladders),
    st.integers(4 * MIB, 8 * GIB),
    st.integers(0, 8 * GIB),
    st.integers(-GIB, 8 * GIB),
)
def test_no_rung_ever_exceeds_a_cap_or_the_room(
    ladder: tuple[Action, ...], limit: int, room: int, host_cap: int
) -> None:
    policy = LimitPolicy(SMALLEST_LIMIT, 2 * GIB, on_limit=ladder)
    match next_rung(policy, Situation(limit, room, frozenset(), host_cap)):
        case Grow(following):
            assert limit < following <= min(2 * GIB, host_cap)
            assert following - limit <= room
        case Move(following):
            assert limit < following <= min(2 * GIB, host_cap)
        case Keep(_):
            assert limit >= min(2 * GIB, host_cap)
        case Warn(_, _) | Leave(_):
            assert ladder[0] in (WARN, LEAVE, GROW)
