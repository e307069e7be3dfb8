"""The product's guard on one real job: frozen, looked at, thawed under a larger limit, and seen
to end with the right answer."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass

import growth
from frame import Row

from outgrow.agent.guard import Guard, Stopped
from outgrow.agent.loop import Future, Loop
from outgrow.core.decide import cache_target, only_dirty_cache
from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2
from racing.cases import MIB, Case
from racing.jobs import Started, expected, memory, started
from racing.place import Place
from racing.rows import new_row

LONGEST = 120.0
"""Seconds; no job takes so long, under emulation either."""
_LARGER = 1 << 30


@dataclass(frozen=True)
class _Crossed:
    """All tasks stood at `at` (nanoseconds, CLOCK_MONOTONIC), as the guard says."""

    at: int
    stopped: Stopped


class Watched:
    """One job under the guard, in the benchmark's own process, which has the product's own
    priority (`outgrow.agent.reliable`)."""

    def __init__(self, case: Case, cgroup: CgroupV1 | CgroupV2, job: Started) -> None:
        self.held = 0
        self.crossed: _Crossed | None = None
        self._case = case
        self._cgroup = cgroup
        self._job = job
        self._loop = Loop()
        self._guard = Guard(self._loop, self._on_growth)
        self._next: Future[_Crossed | None] = Future()

    def run(self, row: Row) -> None:
        """Until the job has ended. Raises TimeoutError."""
        pidfd = os.pidfd_open(self._job.process.pid)
        timer = self._loop.later(LONGEST, lambda: self._next.fail(TimeoutError()))
        self._loop.watch(pidfd, select.EPOLLIN, lambda _: self._gone(pidfd))
        try:
            self._guard.arm(self._cgroup, self._case.band)
            while (crossed := self._loop.run_until(self._next)) is not None:
                self._next = Future()
                if self._pages_of_files():
                    self.held += 1
                    self._go_on()
                    self._guard.arm(self._cgroup, self._case.band)
                    continue
                self._note(row, crossed)
                self._give_more()
        finally:
            timer.cancel()
            self._loop.unwatch(pidfd)
            os.close(pidfd)
            self._guard.disarm_events()

    def _on_growth(self, stopped: Stopped) -> None:
        self._next.set(_Crossed(time.monotonic_ns(), stopped))

    def _gone(self, pidfd: int) -> None:
        self._loop.unwatch(pidfd)
        self._next.set(None)

    def _pages_of_files(self) -> bool:
        """What the keeper does with a job that only unwritten pages of files hold up."""
        cgroup, band = self._cgroup, self._case.band
        reading = cgroup.reading()
        if not only_dirty_cache(reading, cgroup.limit, band):
            return False
        cgroup.drop_cache(cache_target(reading.own, cgroup.limit, band))
        return cgroup.usage() < cgroup.limit - band

    def _note(self, row: Row, crossed: _Crossed) -> None:
        row["saved"] = crossed.stopped.stands and not self._cgroup.oom_kills()
        row["overshoot_mib"] = (self._cgroup.peak() - self._case.mark) / MIB
        row["at_limit"] = self._cgroup.peak() >= self._case.limit
        row["event_to_frozen_ms"] = crossed.stopped.seconds * 1e3
        if self._job.board is not None:
            _note_times(row, self._job.board, crossed.at)

    def _give_more(self) -> None:
        self._guard.disarm_events()
        self._cgroup.disarm()
        self._cgroup.set_limit(2 * self._case.limit + _LARGER)
        if self._job.board is not None:
            self._job.board.hurry = True
        self._go_on()

    def _go_on(self) -> None:
        self._cgroup.thaw()


def _note_times(row: Row, board: growth.Board, frozen: int) -> None:
    """The job's own times; from the last moment at which one of its processes saw the usage below
    the mark, so never too short."""
    below, above = board.crossing()
    row["crossing_to_frozen_ms"] = (frozen - below) / 1e6
    row["crossing_to_last_step_ms"] = (board.last() - below) / 1e6
    row["resolution_ms"] = ((above or frozen) - below) / 1e6
    row["gb_per_second"] = board.speed()
    if board.last() > frozen:
        row["saved"] = False
        row["note"] = "a process ran although the kernel said FROZEN"


def race(case: Case, place: Place) -> Row:
    """Run the case; its row."""
    row = new_row(case, place.version)
    place.warm(memory(case))
    began = time.monotonic()
    with place.cgroup(case.limit) as cgroup, started(case, place, cgroup) as job:
        watched = Watched(case, cgroup, job)
        try:
            watched.run(row)
            status, out, err = job.end(LONGEST)
        except TimeoutError:
            status, out, err = -1, "", f"not at its end after {LONGEST:g} s"
        row["killed"] = cgroup.oom_kills()
        row["held"] = watched.held
        row["right"] = status == 0 and out == expected(case, place)
        row["false_alarm"] = not case.grows and row["saved"] is not None
        row["note"] = row["note"] or err.strip().partition("\n")[0]
    row["seconds"] = time.monotonic() - began
    place.clean()
    return row
