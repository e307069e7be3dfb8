"""Taking away what an examination made."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outgrow.kernel.cgroups import Hierarchies
from outgrow.kernel.clearing import kill_and_remove
from outgrow.ports import Cgroup

_PREFIX = "trying-"


@contextmanager
def cgroup_for_trying(hierarchies: Hierarchies) -> Iterator[Cgroup]:
    """A cgroup, not made yet, that is gone afterwards, with every process that was in it and with
    the directory above it where that was not there before. So is, by now, one whose maker was
    killed."""
    above = [path for path in hierarchies.family() if not path.exists()]
    for name in _left_behind(hierarchies):
        kill_and_remove(hierarchies.cgroup(name))
    cgroup = hierarchies.cgroup(f"{_PREFIX}{os.getpid()}")
    try:
        yield cgroup
    finally:
        with _undisturbed():
            kill_and_remove(cgroup)
            for path in above:
                _remove_empty(path)


def _left_behind(hierarchies: Hierarchies) -> set[str]:
    found = set()
    for family in hierarchies.family():
        for path in family.glob(f"{_PREFIX}*"):
            pid = path.name.removeprefix(_PREFIX)
            if pid.isdigit() and not Path("/proc", pid).exists():
                found.add(path.name)
    return found


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not cut short what the first one began."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _remove_empty(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        pass  # another outgrow has a job below it by now
