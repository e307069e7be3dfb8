"""One job in a keeper's hands: its living incarnation, guarded, sampled and journalled.

Everything that stops the job or lets it run goes through here, so that guard, PID 1 and journal
always say the same.
"""

from __future__ import annotations

from collections.abc import Callable

from outgrow.agent import preflight
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
from outgrow.launcher.streams import Streams
from outgrow.ports import Cgroup

_TRIES_TO_STOP = 40
_LET_IT_READ = 0.025
"""Seconds; a second in all, and then the save says why not."""


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
        self.guard = Guard(loop, on_growth)
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

    async def stop_for_a_save(self) -> float:
        """Stop it at an instant at which a save loses nothing: the program is let on for a moment
        until it has read what no engine keeps. The seconds that stopping took. Raises CannotSave,
        and it runs."""
        for _ in range(_TRIES_TO_STOP):
            seconds = self.freeze()
            if not preflight.must_wait(self._pids()):
                return seconds
            self.run_on("it has not read what no engine keeps")
            await self.loop.sleep(_LET_IT_READ)
        return self.freeze()

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
        if self.live is not None and self.job.state is State.RUNNING:
            self.live.signal(number, group=number in TO_THE_GROUP)
        else:
            self._signals.append(number)

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

    def _pids(self) -> list[int]:
        return self.the_living().cgroup.processes()

    def _cannot_be_saved(self, obstacle: Obstacle) -> None:
        self.chronicle.event("obstacle", pid=obstacle.pid, what=obstacle.what)
        self.say(
            f"{self.job.name} cannot be saved now: {obstacle};"
            f" at its limit only the rest of --on-limit is left. To mend it: {obstacle.remedy}",
            trouble=True,
        )

    def _deliver_what_waited(self) -> None:
        waiting, self._signals = self._signals, []
        for number in waiting:
            self.deliver(number)
