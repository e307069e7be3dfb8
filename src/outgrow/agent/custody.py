"""One job in a keeper's hands: its living incarnation, guarded, sampled and journalled.

Everything that stops the job or lets it run goes through here, so that guard, PID 1 and journal
always say the same.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from outgrow.agent.chronicle import Chronicle
from outgrow.agent.guard import FREEZE_TIMEOUT, Guard, Stopped
from outgrow.agent.host import Host
from outgrow.agent.incarnation import LiveIncarnation
from outgrow.agent.loop import Loop
from outgrow.agent.preflight import Preflight
from outgrow.agent.requests import Say
from outgrow.agent.rescue import Rescue
from outgrow.agent.sampler import Sampler
from outgrow.agent.signals import TO_THE_GROUP
from outgrow.core.errors import CannotSave
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.obstacles import Obstacle
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import MIB
from outgrow.kernel.obstacles import find_obstacles
from outgrow.launcher.streams import Streams
from outgrow.ports import Cgroup

_LET_IT_PASS = (0.025,) * 40
"""Seconds; a second in all, and then the save says why not."""
_MOST_BEYOND = 32 * MIB
"""Bytes above its limit up to which a job is let on for what would keep it from being saved."""
_TIME_TO_TIDY_THE_SCREEN = 0.05
_LET_IT_PASS_AT_THE_LIMIT = (0.002, 0.002, 0.005, 0.01, 0.02, 0.04)
"""The same for a job that has hardly any room to run on in."""


@dataclass(frozen=True)
class Standing:
    """A job that stands: the seconds that stopping it took, and what is in a save's way."""

    seconds: float
    obstacles: list[Obstacle]


class Custody:
    """`say` shows a line to whoever watches the job; `on_growth` is the guard's."""

    def __init__(
        self,
        host: Host,
        loop: Loop,
        job: Job,
        *,
        streams: Streams,
        say: Say,
        on_growth: Callable[[Stopped], None],
    ) -> None:
        self.host = host
        self.loop = loop
        self.streams = streams
        self.say = say
        self.live: LiveIncarnation | None = None
        self.chronicle = Chronicle(host.journal, job)
        self.rescue = Rescue(host, loop, job)
        self.guard = Guard(loop, self._stopped_by_the_guard)
        self._on_growth = on_growth
        self.sampler = Sampler(host, loop, job.id)
        self.preflight = Preflight(loop, self._pids, self._cannot_be_saved)
        self._signals: list[int] = []

    @property
    def job(self) -> Job:
        """The job as it is now."""
        return self.chronicle.job

    @property
    def band(self) -> int:
        """Bytes below the limit where growth is stopped."""
        return self.job.policy.band(self.the_living().cgroup.limit)

    def the_living(self) -> LiveIncarnation:
        """The incarnation. Raises CannotSave when there is none."""
        if self.live is None:
            raise CannotSave("the job has no process now")
        return self.live

    def take(self, live: LiveIncarnation, incarnation: Incarnation) -> None:
        """This incarnation runs, and is guarded from now on."""
        self.live = live
        self.chronicle.begin(incarnation)
        self.chronicle.to(State.RUNNING)
        self.sampler.follow(live.cgroup, live.number)
        self.preflight.begin()
        self.arm()
        live.renew_undo()  # without what it was given to come back
        self._deliver_what_waited()

    def arm(self) -> None:
        """Guard it, as far as its policy says so; else the kernel's rule stands at its limit."""
        live = self.live
        if live is not None and live.alive and self.job.state is State.RUNNING:
            self.arm_cgroup(live.cgroup)

    def arm_cgroup(self, cgroup: Cgroup) -> None:
        """The same for a cgroup in which the job does not run yet."""
        if not self.job.policy.guarded or cgroup.limit >= NO_LIMIT:
            cgroup.disarm()
            return
        try:
            self.guard.arm(cgroup, self.job.policy.band(cgroup.limit))
        except OSError as error:
            self.chronicle.event("unguarded", reason=str(error))
            self.say(
                f"{self.job.name} cannot be guarded ({error}); the kernel's rule stands",
                trouble=True,
            )
            self.give_back()

    def _stopped_by_the_guard(self, stopped: Stopped) -> None:
        """PID 1 watches from here on, whatever this process is busy with."""
        if self.live is not None and self.live.alive:
            self.live.tell_frozen()
        self._on_growth(stopped)

    def give_back(self) -> None:
        """As if outgrow were not there, as far as the kernel lets us; each step by itself."""
        live = self.live
        steps: list[Callable[[], None]] = [self.guard.disarm_events]
        if live is not None:
            steps += [live.cgroup.disarm, live.thaw]
        for step in steps:
            try:
                step()
            except OSError as error:
                self.chronicle.event("not-given-back", reason=str(error))
        if live is not None and live.alive:
            self.chronicle.back_to(State.RUNNING)

    def leave(self, reason: str) -> None:
        """Let it run under the kernel's own rule, and guard it again once it is well below."""
        cgroup = self.the_living().cgroup
        cgroup.disarm()
        self.thaw(f"left to the kernel: {reason}")
        self.sampler.when_below(cgroup.limit - self.band - self.band // 2, self.arm)

    def freeze(self) -> float:
        """Stop it, outside of the guard. The seconds that it took. Raises CannotSave, and it runs,
        when some task does not stop."""
        live = self.the_living()
        began = self.host.clock.monotonic()
        live.tell_frozen()
        self.chronicle.to(State.FROZEN)
        stands = live.cgroup.freeze(FREEZE_TIMEOUT)
        self.guard.hold(live.cgroup)
        self.rescue.step("frozen")
        if not stands:
            self.run_on("its tasks could not all be stopped")
            raise CannotSave(
                "some of its tasks could not be stopped (they wait in the kernel)",
                preserved="the job runs on",
                remedy="see what they wait for: cat /proc/PID/stack",
            )
        return self.host.clock.monotonic() - began

    async def stop_for_a_save(self) -> Standing:
        """Stop it at an instant at which nothing is in a save's way that passes: it is let on for a
        moment until it has. Raises CannotSave, and it runs."""
        for pause in (*_LET_IT_PASS, 0.0):
            standing = Standing(self.freeze(), await self._obstacles())
            if not pause or not any(found.reason.passes for found in standing.obstacles):
                break
            self.run_on("something was in the way that passes")
            await self.loop.sleep(pause)
        return standing

    async def obstacles_at_the_limit(self) -> list[Obstacle]:
        """What is in a save's way for a job that the guard has stopped, once what passes had a
        moment for that. Beyond its limit it is only let on for what would keep it from being saved
        at all."""
        cgroup = self.the_living().cgroup
        for pause in _LET_IT_PASS_AT_THE_LIMIT:
            obstacles = await self._obstacles()
            passing = [found.reason for found in obstacles if found.reason.passes]
            beyond = cgroup.usage() - cgroup.limit
            if beyond >= _MOST_BEYOND:
                return obstacles
            if beyond >= 0:
                passing = [reason for reason in passing if not reason.lost]
            if not passing or not await self._let_on(pause):
                return obstacles
        return await self._obstacles()

    async def _let_on(self, pause: float) -> bool:
        """Let it run for so long, with growth held back; whether it stands again. No checkpoint is
        begun yet, and so PID 1 need not know."""
        cgroup = self.the_living().cgroup
        cgroup.brace(self.band, room=0)
        cgroup.thaw()
        self.rescue.step("let-on")
        await self.loop.sleep(pause)
        stands = cgroup.freeze(FREEZE_TIMEOUT)
        self.guard.hold(cgroup)
        return stands

    def thaw(self, reason: str) -> None:
        """Let it run, unguarded."""
        live = self.the_living()
        live.thaw()
        self.preflight.begin()
        self.chronicle.event("thawed", reason=reason)
        self.chronicle.to(State.RUNNING)
        self.rescue.step("thawed")
        self._deliver_what_waited()

    def run_on(self, reason: str) -> None:
        """Let it run, guarded."""
        self.thaw(reason)
        self.arm()

    def deliver(self, number: int) -> None:
        """A signal for the job: now if it runs, else as soon as it does."""
        if self.live is None or self.job.state is not State.RUNNING:
            self._signals.append(number)
            return
        self.live.signal(number, group=number in TO_THE_GROUP)
        if number == signal.SIGTSTP and _has_terminal():
            self.loop.later(_TIME_TO_TIDY_THE_SCREEN, lambda: self._suspend(self.live))

    def _suspend(self, live: LiveIncarnation | None) -> None:
        """^Z: the shell is to have the terminal back. The job's process group has no parent in its
        session, and so the kernel stops it for no SIGTSTP (setpgid(2), orphaned process groups). On
        return from here it was told to go on."""
        if live is None or not live.alive or self.job.state is not State.RUNNING:
            return
        live.signal(signal.SIGSTOP, group=True)
        try:
            # As the kernel does it, who stops nobody that no shell could continue.
            noted = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, noted)
            self.arm()  # PID 1 may have taken this process for hung
        finally:
            live.signal(signal.SIGCONT, group=True)

    def stop_watching(self) -> None:
        """The incarnation has ended, or is about to be released."""
        self.guard.disarm_events()
        self.sampler.stop()
        self.preflight.stop()

    def delete_checkpoints(self, before: int | None) -> None:
        """Those before number `before`, or all. Blocking."""
        for number in self.host.store.checkpoints(self.job.id):
            if before is None or number < before:
                self.host.store.delete(self.job.id, number)
                self.chronicle.event("checkpoint-deleted", number=number)

    async def _obstacles(self) -> list[Obstacle]:
        pids = self._pids()
        return await self.loop.in_thread(lambda: find_obstacles(pids))

    def _pids(self) -> list[int]:
        return self.the_living().cgroup.processes()

    def _cannot_be_saved(self, obstacle: Obstacle) -> None:
        self.chronicle.event("obstacle", pid=obstacle.pid, what=obstacle.reason.what)
        self.say(
            f"{self.job.name} cannot be saved now: {obstacle};"
            " at its limit only the rest of --on-limit is left."
            f" To mend it: {obstacle.reason.remedy}",
            trouble=True,
        )

    def _deliver_what_waited(self) -> None:
        waiting, self._signals = self._signals, []
        for number in waiting:
            self.deliver(number)


def _has_terminal() -> bool:
    """Whether there is a shell that took the signal's way."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True
