"""A policy that makes no sense is refused where it is made."""

from __future__ import annotations

import pytest

from outgrow.core.errors import Usage
from outgrow.core.policy import SMALLEST_LIMIT, Action, LimitPolicy, parse_on_limit
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import GIB, MIB

WARN, GROW, MOVE, LEAVE = Action.WARN, Action.GROW, Action.MOVE, Action.LEAVE


@pytest.mark.parametrize(
    ("text", "ladder"),
    [
        ("grow,move", (GROW, MOVE)),
        ("move", (MOVE,)),
        ("leave", (LEAVE,)),
        (" warn , grow,move ,leave", (WARN, GROW, MOVE, LEAVE)),
        ("move,grow", (MOVE, GROW)),
    ],
)
def test_a_ladder_is_read_in_its_order(text: str, ladder: tuple[Action, ...]) -> None:
    assert parse_on_limit(text) == ladder


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "--on-limit '' is unknown", id="empty"),
        pytest.param("grow,", "--on-limit '' is unknown", id="a comma too many"),
        pytest.param("grow move", "'grow move' is unknown", id="no comma"),
        pytest.param("kill", "'kill' is unknown", id="no such action"),
        pytest.param("GROW", "'GROW' is unknown", id="upper case"),
        pytest.param("grow,move,grow", "names grow twice", id="twice"),
    ],
)
def test_a_ladder_that_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(Usage) as error:
        parse_on_limit(text)
    assert says in error.value.message
    assert error.value.remedy


def test_an_unknown_action_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Usage, match="warn, grow, move, leave"):
        parse_on_limit("sleep")


@pytest.mark.parametrize(
    ("memory", "max_memory", "band", "ladder", "says"),
    [
        pytest.param(1, GIB, MIB, (MOVE,), "--memory 1 B is too little", id="no program starts"),
        pytest.param(SMALLEST_LIMIT - 1, GIB, MIB, (MOVE,), "is too little", id="just too small"),
        pytest.param(0, GIB, MIB, (MOVE,), "--memory 0 B is too little", id="nothing"),
        pytest.param(
            GIB, GIB - 1, MIB, (MOVE,), "--max-memory 1023.9 MiB is below --memory 1 GiB", id="cap"
        ),
        pytest.param(GIB, GIB, MIB - 1, (MOVE,), "--band 1023.9 KiB", id="band"),
        pytest.param(GIB, GIB, MIB, (), "--on-limit names no action", id="no ladder"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    memory: int, max_memory: int, band: int, ladder: tuple[Action, ...], says: str
) -> None:
    with pytest.raises(Usage) as error:
        LimitPolicy(memory, max_memory, wanted_band=band, on_limit=ladder)
    assert says in error.value.message
    assert error.value.remedy


@pytest.mark.parametrize(
    ("memory", "max_memory"),
    [(SMALLEST_LIMIT, SMALLEST_LIMIT), (GIB, 2 * GIB), (NO_LIMIT, NO_LIMIT)],
)
def test_numbers_that_make_sense_are_taken(memory: int, max_memory: int) -> None:
    policy = LimitPolicy(memory, max_memory)
    assert policy.on_limit == (GROW, MOVE)
    assert policy.guarded


@pytest.mark.parametrize(
    ("ladder", "guarded"),
    [((LEAVE,), False), ((LEAVE, MOVE), False), ((WARN, LEAVE), True), ((GROW,), True)],
)
def test_a_ladder_that_begins_with_leave_is_no_guard(
    ladder: tuple[Action, ...], guarded: bool
) -> None:
    assert LimitPolicy(GIB, GIB, on_limit=ladder).guarded is guarded


def test_the_band_follows_the_limit_that_is_in_force() -> None:
    policy = LimitPolicy(64 * MIB, GIB)
    assert [policy.band(limit) for limit in (64 * MIB, 96 * MIB, GIB)] == [
        16 * MIB,
        24 * MIB,
        32 * MIB,
    ]
