"""The watch on one limit.

A crossing is stopped first and looked at standing still: what a cgroup's memory consists of takes
the kernel milliseconds to say (4 to 19 ms here for one of 8 GiB), in which a job grows by hundreds
of MiB. Only a job whose last crossing was page cache is looked at while it runs, so that one that
streams files does not stop at every band of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from outgrow.agent.loop import Loop, Timer
from outgrow.core.decide import Crossing, cache_target, judge_crossing
from outgrow.ports import Cgroup

FREEZE_TIMEOUT = 5.0
"""Seconds. A task in an uninterruptible wait (a dead NFS server) may never stand still; the save
is given up then, and the job runs on."""
_TRIES_TO_DROP = 3
_FASTEST = 16e9
"""Bytes per second: twice what pipes and sockets reach here (benchmarks/race.py)."""
_SHORTEST_LOOK = 0.001
_LONGEST_LOOK = 1.0
_STILL_LOOKS = 32
_SELDOM = 16
"""A job whose usage was the same at so many looks is looked at so many times less often: a sleeping
job of 128 MiB costs 0.2 % of a core then, and not 2 %."""


@dataclass(frozen=True)
class Stopped:
    """Growth was stopped: whether every task stands, and the seconds from the event to that."""

    stands: bool
    seconds: float


class Guard:
    """Stops a job's growth just below its limit.

    Driven by the kernel's event. When usage crosses limit - band the job is frozen inside the
    callback. Was it growth, then `on_growth` is called; page cache is dropped, and the job runs on.
    """

    def __init__(self, loop: Loop, on_growth: Callable[[Stopped], None]) -> None:
        self._loop = loop
        self._on_growth = on_growth
        self._cgroup: Cgroup | None = None
        self._band = 0
        self._next_look: Timer | None = None
        self._streams = False  # its last crossing was page cache
        self._last_usage = 0
        self._still = 0  # looks at which the usage was that

    def arm(self, cgroup: Cgroup, band: int) -> None:
        """Watch `cgroup` at its limit. Should it have crossed already, that is found at once."""
        self.disarm_events()
        cgroup.arm(band)
        self._cgroup, self._band = cgroup, band
        self._loop.watch(cgroup.fileno(), cgroup.poll_mask, self._ready)
        self._judge(time.monotonic())
        self._plan_a_look()

    def _look_again(self) -> None:
        woken = time.monotonic()
        self._next_look = None
        try:
            self._judge(woken)
            self._plan_a_look()
        except OSError:
            self._fail(woken)

    def _plan_a_look(self) -> None:
        """For what has no event: memory that the kernel takes for the job. So often that growth at
        full speed is seen within the first half of the band, and seldom when it is far away."""
        cgroup = self._cgroup
        if cgroup is None or cgroup.tells_of_kernel_memory or self._next_look is not None:
            return
        usage = cgroup.usage()
        self._still = self._still + 1 if usage == self._last_usage else 0
        self._last_usage = usage
        seconds = max((cgroup.limit - self._band // 2 - usage) / _FASTEST, _SHORTEST_LOOK)
        if self._still >= _STILL_LOOKS:
            seconds *= _SELDOM
        self._next_look = self._loop.later(min(seconds, _LONGEST_LOOK), self._look_again)

    def hold(self, cgroup: Cgroup) -> None:
        """The job stands, and is about to be written down: nothing that the engine does inside it
        is growth. `arm` or `disarm` ends that."""
        self.disarm_events()
        cgroup.hold()

    def disarm_events(self) -> None:
        """Stop listening; what the kernel does at the limit stays as it is."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        if self._cgroup is not None and self._cgroup.fileno() >= 0:
            self._loop.unwatch(self._cgroup.fileno())
        self._cgroup = None

    def _ready(self, _: int) -> None:
        woken = time.monotonic()
        try:
            if self._cgroup is not None and self._cgroup.acknowledge():
                self._judge(woken)
        except OSError:
            self._fail(woken)

    def _fail(self, woken: float) -> None:
        """It cannot be watched, or not be stopped: the kernel's rule then. Whoever is told lets it
        run, should it have been stopped already."""
        self.disarm_events()
        self._on_growth(Stopped(False, time.monotonic() - woken))

    def _judge(self, woken: float) -> None:
        cgroup = self._cgroup
        if cgroup is None or cgroup.usage() < cgroup.limit - self._band:
            return
        if self._streams and self._is_only_cache(cgroup, enough=cgroup.limit - self._band // 2):
            return
        stands = cgroup.freeze(FREEZE_TIMEOUT)
        seconds = time.monotonic() - woken
        if stands and self._is_only_cache(cgroup):
            cgroup.thaw()
            self.arm(cgroup, self._band)  # enforces what freezing may have raised
            return
        self.hold(cgroup)
        self._on_growth(Stopped(stands, seconds))

    def _is_only_cache(self, cgroup: Cgroup, enough: float = math.inf) -> bool:
        """Whether page cache alone was too much, which is dropped then. Looked at while the job
        runs, that is given up when its usage reaches `enough`."""
        limit, band = cgroup.limit, self._band
        for _ in range(_TRIES_TO_DROP):
            usage = cgroup.usage()
            if usage < limit - band or usage > enough:
                break
            reading = cgroup.reading()
            verdict = judge_crossing(reading, limit, band)
            if verdict is Crossing.FALSE:
                break
            self._streams = verdict is Crossing.CACHE
            if not self._streams:
                return False
            cgroup.drop_cache(cache_target(reading.usage - reading.clean_cache, limit, band))
        return cgroup.usage() < limit - band
