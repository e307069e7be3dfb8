"""What is saved: how much memory, of which kind, how often; and the row of one measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from frame import Row
from holding import KINDS

MIB = 1 << 20
GIB = 1 << 30


class Way(StrEnum):
    """How the bytes come to the disk and back."""

    OUTGROW = "outgrow"
    CRIU = "criu"
    PLAIN = "plain"


@dataclass(frozen=True)
class Case:
    """A job that holds `size` bytes of one kind; `repetition` counts from 0."""

    size: int
    kind: str
    repetition: int = 0

    @property
    def mib(self) -> int:
        """The same in MiB."""
        return self.size // MIB

    @property
    def limit(self) -> int:
        """Of the job's cgroup: so far above that nothing happens by itself."""
        return self.size + self.size // 4 + 256 * MIB

    @property
    def order(self) -> tuple[Way, ...]:
        """The ways, each first in turn."""
        ways = list(Way)
        first = self.repetition % len(ways)
        return (*ways[first:], *ways[:first])


SIZES = tuple(step * GIB // 4 for step in (1, 2, 4, 8, 16, 32))
LARGE = 4 * GIB
"""From here on only random bytes: each takes minutes, and up to here text takes as long."""
REPETITIONS = 3


def full(sizes: Sequence[int] = SIZES, repetitions: int = REPETITIONS) -> list[Case]:
    """All sizes, the smallest first; of each, both kinds before the next repetition."""
    return [
        Case(size, kind, repetition)
        for size, repetition, kind in product(sizes, range(repetitions), KINDS)
        if size < LARGE or kind == "random"
    ]


def quick() -> list[Case]:
    """A part of it for less than a minute."""
    return full(sizes=SIZES[:1])


def new_row(case: Case, way: Way) -> Row:
    """What is known beforehand; the rest is null until it is measured. Times in seconds."""
    return {
        "way": str(way),
        "bytes": case.size,
        "kind": case.kind,
        "repetition": case.repetition,
        "save_seconds": None,
        "durable_seconds": None,
        "resume_seconds": None,
        "verified_resume_seconds": None,
        "journal": [],
        "image_bytes": None,
        "right": None,
        "note": "",
    }
