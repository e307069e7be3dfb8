"""The adapters of this host, put together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outgrow.agent.paths import DEFAULT, VARIABLE, StateDir
from outgrow.agent.tidy import tidy
from outgrow.core.errors import Unsupported
from outgrow.engines.criu.engine import CriuEngine
from outgrow.journal.writer import JournalWriter
from outgrow.kernel import cgroups, proc
from outgrow.ports import Engine, Journal, Scheduler
from outgrow.schedulers.local import LocalScheduler, promises_below
from outgrow.store.posix import PosixStore


class SystemClock:
    """The Clock port."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Host:
    """Everything that a keeper of jobs needs of the world."""

    state: StateDir
    hierarchies: cgroups.Hierarchies
    engine: Engine
    store: PosixStore
    scheduler: Scheduler
    journal: Journal
    clock: SystemClock


def state_dir(option: str | None) -> StateDir:
    """The state directory that the option, the environment or the default names."""
    return StateDir(Path(option or os.environ.get(VARIABLE) or DEFAULT).absolute())


def local_scheduler(hierarchies: cgroups.Hierarchies) -> LocalScheduler:
    """This host's memory, given out by looking at it."""
    family = hierarchies.family()[0]
    return LocalScheduler(proc.memory_total_and_available, lambda: promises_below(family))


def open_host(state: StateDir, complain: Callable[[str], None]) -> Host:
    """Put the adapters together. Raises Unsupported where the main job cannot run."""
    if os.geteuid() != 0:
        raise Unsupported("guarding a job without root", remedy="run as root (sudo)")
    hierarchies = cgroups.find_hierarchies()
    scheduler = local_scheduler(hierarchies)
    engine = CriuEngine(proc.cpu_features)
    state.make()
    tidy(state)
    return Host(
        state=state,
        hierarchies=hierarchies,
        engine=engine,
        store=PosixStore(state.store),
        scheduler=scheduler,
        journal=JournalWriter(state.journal, complain),
        clock=SystemClock(),
    )
