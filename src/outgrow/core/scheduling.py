"""How the kernel schedules a thread, as far as no engine writes that down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ThreadSchedule:
    """Of thread `tid`, as the job's own PID namespace numbers it: what it does not have from the
    process that started the job, and so has set for itself. Empty and None: nothing.

    `cpus` as of sched_setaffinity(2), `io_priority` as of ioprio_set(2), `timer_slack` in
    nanoseconds (prctl(2), PR_SET_TIMERSLACK).
    """

    tid: int
    cpus: tuple[int, ...] = ()
    io_priority: int | None = None
    timer_slack: int | None = None
