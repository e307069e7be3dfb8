"""Which jobs race: how they grow, with how many processes, how fast, under which limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from outgrow.core.sizing import band_for

MIB = 1 << 20
GIB = 1 << 30


class Way(StrEnum):
    """How a job is watched."""

    GUARD = "guard"
    """The product's guard alone: frozen, checked, thawed under a larger limit."""
    OUTGROW = "outgrow run"
    """The whole product: saved, released, resumed."""
    KERNEL = "kernel alone"
    EARLYOOM = "earlyoom"


@dataclass(frozen=True)
class Case:
    """One race. `rate` in GB/s for all processes together, 0 as fast as it goes."""

    way: Way
    kind: str
    limit: int
    processes: int = 1
    huge: bool = False
    rate: float = 0.0

    own: int = 0
    """Bytes of its own that a streaming job holds all the while."""

    @property
    def band(self) -> int:
        """How far below the limit growth is stopped: the product's own rule."""
        return band_for(self.limit)

    @property
    def mark(self) -> int:
        """The usage at which growth is to be stopped."""
        return self.limit - self.band

    @property
    def streams(self) -> bool:
        """Whether it reads or writes files and does not grow at all."""
        return self.kind in STREAMS

    @property
    def grows(self) -> bool:
        """Whether its own memory outgrows the limit. Pages of a file on disk do not: the kernel
        writes them out, and the job runs on."""
        return not self.streams and self.kind != "file"


STREAMS = ("read a file", "map a file", "write a file", "copy a file")
"""Jobs of streaming.py."""
RATES = (0.1, 1.0, 0.0)
PROCESSES = (1, 4, 16, 64)
GROWTH = (
    ("anon", False),
    ("anon", True),
    ("tmpfs", False),
    ("tmpfs", True),
    ("tmpfs-write", False),
    ("read", False),
    ("read", True),
    ("pipe", False),
    ("socket", False),
)
"""Kinds of growth.py, and whether with huge pages. Pipes and sockets have none."""


def full() -> list[Case]:
    """The grid on cgroup v1."""
    return [
        *_guard(product(GROWTH, PROCESSES, RATES, (128 * MIB, GIB))),
        *_guard(product((("anon", False), ("anon", True), ("tmpfs", False)), (1, 16, 64), (0.0,),
                        (8 * GIB,))),
        *_guard(product((("file", False),), (1, 4, 16), RATES, (256 * MIB, GIB))),
        *_streams(GIB // 8),
        *_whole(),
        *_without(),
    ]  # fmt: skip


def quick() -> list[Case]:
    """A part of it for less than a minute."""
    return [
        *_guard(product(GROWTH, (1, 4, 16), (0.0,), (128 * MIB,))),
        *_guard(product(GROWTH, (64,), (0.1,), (128 * MIB,))),
        *_guard(product((("file", False),), (1, 4), (0.0,), (256 * MIB,))),
        *list(_streams(GIB // 8))[::2],
        *list(_whole())[::4],
        *list(_without())[::3],
    ]


def emulated() -> list[Case]:
    """The smaller grid on cgroup v2, in a machine of 3 GiB that is 10 to 20 times slower."""
    return [
        *_guard(product(GROWTH, (1, 16), (0.0,), (128 * MIB,))),
        *_guard(product(GROWTH, (4,), (0.1,), (128 * MIB,))),
        *_guard(product((("anon", False), ("anon", True)), (64,), (0.0,), (512 * MIB,))),
        *_guard(product((("file", False),), (1, 4), (0.0,), (256 * MIB,))),
        *_streams(GIB // 8),
        *list(_whole())[::3],
        *list(_without())[:2],
    ]


def emulated_quick() -> list[Case]:
    """A part of that for the tests."""
    return [
        *_guard(product(GROWTH, (4,), (0.0,), (128 * MIB,))),
        *list(_streams(GIB // 8))[::2],
    ]


def _guard(
    grid: Iterator[tuple[tuple[str, bool], int, float, int]],
) -> Iterator[Case]:
    for (kind, huge), processes, rate, limit in grid:
        yield Case(Way.GUARD, kind, limit, processes, huge, rate)


def _streams(limit: int) -> Iterator[Case]:
    for kind, processes in product(STREAMS, (1, 4)):
        yield Case(Way.GUARD, kind, limit, processes)
    # A quarter of the limit its own; and own memory (with the interpreter's 8 MiB) so close below
    # the mark that dropping all cache leaves it half a band away, and not a whole one.
    yield Case(Way.GUARD, "read a file", limit, own=limit // 4)
    yield Case(Way.GUARD, "read a file", limit, own=limit - band_for(limit) * 3 // 2 - 8 * MIB)


def _whole() -> Iterator[Case]:
    limit = GIB // 8
    for kind, huge, processes, rate in (
        ("anon", False, 1, 0.0),
        ("anon", True, 4, 0.0),
        ("anon", False, 16, 0.0),
        ("anon", False, 64, 1.0),
        ("shared", False, 4, 0.0),
        ("tmpfs", False, 4, 0.0),
        ("tmpfs-write", False, 1, 0.1),
        ("read", False, 4, 0.0),
        ("pipe", False, 1, 0.0),
        ("pipe", False, 4, 0.1),
        ("socket", False, 1, 0.0),
        ("socket", False, 4, 0.1),
        ("file", False, 1, 0.0),
    ):
        yield Case(Way.OUTGROW, kind, limit, processes, huge, rate)
    yield Case(Way.OUTGROW, "anon", GIB, 1)
    for kind in STREAMS:
        yield Case(Way.OUTGROW, kind, limit)


def _without() -> Iterator[Case]:
    limit = GIB // 8
    for kind, huge, processes in (
        ("anon", False, 1),
        ("anon", True, 16),
        ("tmpfs", False, 4),
        ("read", False, 4),
        ("pipe", False, 4),
        ("socket", False, 4),
    ):
        yield Case(Way.KERNEL, kind, limit, processes, huge)
    for kind, huge, processes in (("anon", False, 1), ("anon", True, 16), ("pipe", False, 4)):
        yield Case(Way.EARLYOOM, kind, limit, processes, huge)
