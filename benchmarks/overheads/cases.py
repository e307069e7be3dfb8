"""Which jobs run how, how often; and the row of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from frame import Row

MIB = 1 << 20
LIMIT = 512 * MIB
"""Several times what the jobs need: nothing happens."""


class Way(StrEnum):
    """Who is around the job."""

    ALONE = "alone"
    LIMITED = "limit alone"
    """In a memory cgroup with the limit that it has under outgrow, and nobody watches."""
    OUTGROW = "outgrow run"


AMOUNTS = {"processor": 3500, "faults": 75, "files": 360}
"""Rounds of working.py for about 3 s where this was written."""
REPETITIONS = 15
QUICK_REPETITIONS = 3
_QUICKER = 3


@dataclass(frozen=True)
class Case:
    """One kind of work, run in every way; `repetition` counts from 0."""

    kind: str
    amount: int
    repetition: int

    @property
    def order(self) -> tuple[Way, ...]:
        """The ways, each first in turn, and every other time backwards."""
        ways = list(Way)
        first = self.repetition % len(ways)
        turned = (*ways[first:], *ways[:first])
        return turned if self.repetition // len(ways) % 2 == 0 else turned[::-1]


def plan(*, quick: bool, repetitions: int, kinds: Sequence[str] = tuple(AMOUNTS)) -> list[Case]:
    """Once through all kinds before the next repetition."""
    part = _QUICKER if quick else 1
    times = QUICK_REPETITIONS if quick else repetitions
    return [
        Case(kind, AMOUNTS[kind] // part, repetition)
        for repetition, kind in product(range(times), kinds)
    ]


def new_row(case: Case, way: Way) -> Row:
    """What is known beforehand. `seconds` are those of the work, `whole_seconds` those of the
    command, with all that starts and ends with it."""
    return {
        "way": str(way),
        "kind": case.kind,
        "repetition": case.repetition,
        "seconds": None,
        "processor_seconds": None,
        "whole_seconds": None,
        "saves": None,
        "note": "",
    }
