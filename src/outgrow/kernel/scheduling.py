"""Reading and setting what schedules a thread: CRIU keeps policy and priority, and not these."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from outgrow import libc
from outgrow.core.scheduling import ThreadSchedule
from outgrow.kernel.files import read, write
from outgrow.kernel.proc import PROC


def own_schedules(pids: Iterable[int], like: int) -> tuple[ThreadSchedule, ...]:
    """Of the threads of these processes that differ from process `like`. Threads that end
    meanwhile are left out."""
    found: list[ThreadSchedule] = []
    try:
        usual = _schedule(like)
    except OSError:  # without CAP_SYS_NICE not all of it can be read
        return ()
    for tid, inner in _threads(pids):
        try:
            cpus, io_priority, timer_slack = _schedule(tid)
        except OSError:
            continue
        schedule = ThreadSchedule(
            inner,
            cpus if cpus != usual[0] else (),
            io_priority if io_priority != usual[1] else None,
            timer_slack if timer_slack != usual[2] else None,
        )
        if schedule != ThreadSchedule(inner):
            found.append(schedule)
    return tuple(found)


def schedule_again(pids: Iterable[int], schedules: Iterable[ThreadSchedule]) -> None:
    """Give threads theirs back, as far as this host lets us: a CPU that is not there, or that the
    job may not use here, is left out."""
    wanted = {schedule.tid: schedule for schedule in schedules}
    for tid, inner in _threads(pids) if wanted else ():
        schedule = wanted.get(inner)
        if schedule is None:
            continue
        try:
            cpus = set(schedule.cpus) & os.sched_getaffinity(tid)
            if cpus:
                os.sched_setaffinity(tid, cpus)
            if schedule.io_priority is not None:
                libc.ioprio_set(tid, schedule.io_priority)
            if schedule.timer_slack is not None:
                write(PROC / str(tid) / "timerslack_ns", str(schedule.timer_slack))
        except OSError:
            continue


def _threads(pids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Each with its number in its innermost PID namespace."""
    for pid in pids:
        try:
            tids = [int(name) for name in os.listdir(PROC / str(pid) / "task")]
        except OSError:
            continue
        for tid in tids:
            try:
                status = read(PROC / str(tid) / "status")
            except OSError:
                continue
            match = re.search(r"^NSpid:.*?(\d+)$", status, re.MULTILINE)
            if match is not None:
                yield tid, int(match.group(1))


def _schedule(tid: int) -> tuple[tuple[int, ...], int, int]:
    return (
        tuple(sorted(os.sched_getaffinity(tid))),
        libc.ioprio_get(tid),
        int(read(PROC / str(tid) / "timerslack_ns")),
    )
