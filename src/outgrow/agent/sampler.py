"""Looks at a job's memory now and then, for the picture; the guard does not depend on it."""

from __future__ import annotations

from collections.abc import Callable

from outgrow.agent.host import Host
from outgrow.agent.loop import Loop, Timer
from outgrow.core.sample import Sample, SampleClock
from outgrow.ports import Cgroup


class Sampler:
    """One job's samples, written to the journal."""

    def __init__(self, host: Host, loop: Loop, job: str) -> None:
        self._host = host
        self._loop = loop
        self._job = job
        self._cgroup: Cgroup | None = None
        self._number = 0
        self._clock = SampleClock()
        self._timer: Timer | None = None
        self._below: tuple[int, Callable[[], None]] | None = None

    def follow(self, cgroup: Cgroup, incarnation: int) -> None:
        """Sample this one from now on."""
        self.stop()
        self._cgroup, self._number, self._clock = cgroup, incarnation, SampleClock()
        self._tick()

    def stop(self) -> None:
        """Take a last sample, and no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._look()
        self._cgroup = self._below = None

    def when_below(self, usage: int, call: Callable[[], None]) -> None:
        """Call once when a sample is below `usage` bytes."""
        self._below = (usage, call)

    def _tick(self) -> None:
        usage = self._look()
        limit = self._cgroup.limit if self._cgroup else 0
        self._timer = self._loop.later(self._clock.after(usage, limit), self._tick)
        if self._below is not None and usage < self._below[0]:
            _, call = self._below
            self._below = None
            call()

    def _look(self) -> int:
        if self._cgroup is None:
            return 0
        try:
            usage = self._cgroup.usage()
        except OSError:
            return 0
        sample = Sample(self._host.clock.now(), usage, self._cgroup.limit)
        self._host.journal.samples(self._job, self._number, [sample])
        return usage
