"""How a job's first process ended, as wait(2) tells it."""

from __future__ import annotations

SIGKILL = 9
NOBODY_SAW = 128 + SIGKILL
"""The status of a job that nobody saw end: only SIGKILL from outside, or the power, does that."""


def exit_status(wait_status: int | None) -> int:
    """The status that a shell would give: its own, or 128+n for death by signal n."""
    if wait_status is None:
        return NOBODY_SAW
    by_signal = ended_by_signal(wait_status)
    return 128 + by_signal if by_signal else wait_status >> 8


def ended_by_signal(wait_status: int | None) -> int:
    """The signal that ended it, 0 when it ended by itself or nobody saw."""
    return 0 if wait_status is None else wait_status & 0x7F


def was_killed(wait_status: int | None) -> bool:
    """Whether it was killed in a way that no program can prevent or save itself from."""
    return wait_status is None or ended_by_signal(wait_status) == SIGKILL


def reason(wait_status: int | None, oom_kills: int) -> str:
    """Why it ended, empty when by its own will."""
    if oom_kills:
        return f"the kernel killed {oom_kills} of its processes at the limit"
    if wait_status is None:
        return "all its processes were killed from outside, nobody saw it end"
    by_signal = ended_by_signal(wait_status)
    return f"ended by signal {by_signal}" if by_signal else ""
