"""Taking a cgroup away together with what runs in it."""

from __future__ import annotations

import os
import signal
import time

from outgrow.ports import Cgroup


def kill_and_remove(cgroup: Cgroup, patience: float = 5.0) -> None:
    """Kill what is in it, and remove it; fine when it is gone, or was never made. Blocking. Raises
    OSError when something in it would not die within `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            # In this order: a task at the limit of v1's backstop dies of our signal, and not of
            # the OOM killer, which would say so in the kernel's log.
            for pid in cgroup.processes():
                _kill(pid)
            _thaw(cgroup)
            cgroup.remove()
        except OSError:  # EBUSY: its last process is just going
            if time.monotonic() > end:
                raise
            time.sleep(0.005)
        else:
            return


def _thaw(cgroup: Cgroup) -> None:
    try:
        cgroup.thaw()
    except FileNotFoundError:
        pass  # it was not made, or somebody else has removed it


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
