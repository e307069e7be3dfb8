"""What lets outgrow act on a machine that is short of everything."""

from __future__ import annotations

import gc
import os

from outgrow import libc

_URGENT = -20
"""The best nice value: with both cores busy a crossing is frozen within a few ms, and a real-time
class has outliers that this has not (measured in benchmarks/race.py)."""


def become_reliable() -> int:
    """Ahead of what it watches: high priority, in memory, not to be killed first. Each of them
    helps and none is needed. The oom_score_adj that was in force before."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _URGENT)
    except OSError:
        pass
    try:
        libc.mlockall(libc.MCL_CURRENT | libc.MCL_FUTURE | libc.MCL_ONFAULT)
    except OSError:
        pass
    gc.freeze()
    before = 0
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            before = int(file.read())
            file.seek(0)
            file.write("-1000")
    except OSError:
        pass
    return before
