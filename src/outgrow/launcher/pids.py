"""PIDs in a namespace that a job comes back to."""

from __future__ import annotations

from collections.abc import Iterable

ROOM = 256
"""How many PIDs in a row the restoring engine gets for itself and its helpers."""


def last_pid_before_gap(taken: Iterable[int], pid_max: int) -> int:
    """The lowest value for ns_last_pid after which `ROOM` PIDs are free of `taken`.

    The kernel hands out the next PIDs from there, so that the engine, which lives beside the job
    while it brings it back, never sits on a number that the job needs. Raises ValueError when the
    job leaves no such gap below `pid_max`.
    """
    start = 300  # below this the kernel does not come back after a wrap (RESERVED_PIDS)
    for pid in sorted(set(taken)):
        if pid <= start:
            continue
        if pid - start > ROOM:
            break
        start = pid
    if start + ROOM >= pid_max:
        raise ValueError("the job leaves no PIDs free")
    return start
