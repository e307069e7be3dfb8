"""The job that holds memory, as the benchmark sees it from outside, whoever runs it."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holding import Board
from racing.place import Place

from dumping.cases import GIB, Case
from outgrow.kernel import proc

HERE = Path(__file__).parents[1]
LONGEST = 300.0
"""Seconds; nothing here takes so long."""
_LOOK = 0.0005
_SPARED = 2 * GIB


def command(case: Case, board: Path) -> list[str]:
    """What runs."""
    return [
        *(sys.executable, "-I", "-S", str(HERE / "holding.py")),
        *("--mib", str(case.mib), "--kind", case.kind, "--board", str(board)),
    ]


def wait_until(there: Callable[[], bool], what: str, seconds: float = LONGEST) -> None:
    """Until it is so. Raises RuntimeError when it is not by then."""
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not happen within {seconds:g} s")
        time.sleep(_LOOK)


def find(words: list[str]) -> int:
    """The PID of the process with this command line, the youngest of them; 0 when there is none."""
    wanted = "\0".join(words).encode() + b"\0"
    found = 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and (folder / "cmdline").read_bytes() == wanted:
                found = max(found, int(folder.name))
        except OSError:
            continue
    return found


def warm_up(place: Place, size: int) -> None:
    """Before what writes `size` bytes into the page cache: see Place.warm. Never so much that the
    machine could run short."""
    _, available = proc.memory_total_and_available()
    spare = available - _SPARED
    if spare > 0:
        place.warm(min(size, spare))


class Death:
    """Of one process, to be waited for: its memory is given back then (exit_mm comes before
    exit_notify in the kernel's do_exit)."""

    def __init__(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)

    def wait(self) -> int:
        """When it was seen, in nanoseconds since the epoch. Raises RuntimeError."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        try:
            if not poll.poll(LONGEST * 1e3):
                raise RuntimeError("the job did not end")
            return time.time_ns()
        finally:
            os.close(self._pidfd)


def runs_again(board: Board, since: int) -> int:
    """Wait for the job's first sign of life after `since`, which is within its longest pause; when
    that was, as the job says."""
    wait_until(lambda: board.last > since, "the job's return")
    return board.pause()[1]


def check(board: Board) -> bool:
    """Whether the job still holds what it did."""
    board.ask()
    wait_until(lambda: board.right is not None, "the job's answer")
    return bool(board.right)
