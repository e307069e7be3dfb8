"""The keeper of one job: starts it, guards it, rescues it, and sees it end.

What happens from outside (the guard's crossing, a request, the end) is put into one queue and
dealt with in order; only the guard's freeze happens at once.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from outgrow.agent.chronicle import Chronicle
from outgrow.agent.guard import FREEZE_TIMEOUT, Guard, Stopped
from outgrow.agent.host import Host
from outgrow.agent.incarnation import LiveIncarnation
from outgrow.agent.ladder import Ladder
from outgrow.agent.loop import Future, Loop
from outgrow.agent.requests import Outcome, Request
from outgrow.agent.rescue import Rescue, Saved
from outgrow.agent.sampler import Sampler
from outgrow.agent.signals import TO_THE_GROUP
from outgrow.core import ending
from outgrow.core.decide import Grow, Keep, Leave, Move, Warn, only_dirty_cache
from outgrow.core.errors import Busy, CannotSave, OutgrowError, Transient, Usage
from outgrow.core.job import Incarnation, Job, SaveRecord
from outgrow.core.lifecycle import State
from outgrow.core.policy import Action
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import format_option, format_seconds, format_size
from outgrow.launcher.streams import Streams
from outgrow.ports import Cgroup

GRACE = 5.0
"""Seconds that what a job leaves in the background has between SIGTERM and SIGKILL."""
_LOOK_FOR_ROOM = 1.0
_STOPPED_WHILE_WAITING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


@dataclass(frozen=True)
class _Crossed:
    incarnation: int
    stopped: Stopped


@dataclass(frozen=True)
class _Ended:
    incarnation: int


class Keeper:
    """See the module. `say` shows a line to whoever watches the job."""

    def __init__(
        self, host: Host, loop: Loop, job: Job, streams: Streams, say: Callable[[str], None]
    ) -> None:
        self.live: LiveIncarnation | None = None
        self._host = host
        self._loop = loop
        self._streams = streams
        self._say = say
        self._chronicle = Chronicle(host.journal, job)
        self._rescue = Rescue(host, loop, job)
        self._guard = Guard(loop, self._crossed)
        self._ladder = Ladder(host.scheduler, job.policy)
        self._sampler = Sampler(host, loop, job.id)
        self._queue: deque[object] = deque()
        self._posted: Future[None] = Future()
        self._signals: list[int] = []
        self._busy = ""
        self._gave_up_waiting = False
        self._killed_by_request = False

    @property
    def job(self) -> Job:
        """The job as it is now."""
        return self._chronicle.job

    # -- from outside

    def request(self, request: Request) -> None:
        """Take a request; it is answered when it is done, or at once when it cannot be."""
        if self._busy and request.verb != "kill":
            request.answer.fail(
                Busy(f"the job is busy: {self._busy}", remedy="try again when that is done")
            )
            return
        if request.verb in ("save", "move"):
            self._busy = "another request waits"
        self._post(request)

    def deliver(self, number: int) -> None:
        """A signal for the job: now if it runs, else as soon as it does."""
        if self.job.state is State.QUEUED and number in _STOPPED_WHILE_WAITING:
            self._gave_up_waiting = True
        elif self.live is not None and self.job.state is State.RUNNING:
            self.live.signal(number, group=number in TO_THE_GROUP)
        else:
            self._signals.append(number)

    # -- the job's life

    def adopt(self, live: LiveIncarnation, incarnation: Incarnation) -> None:
        """Keep an incarnation that runs."""
        self.live = live
        self._chronicle.begin(incarnation)
        number = live.number
        live.ended.then(lambda: self._post(_Ended(number)))
        self._chronicle.to(State.RUNNING)
        self._sampler.follow(live.cgroup, number)
        self._arm()
        for waiting in self._signals:
            self.deliver(waiting)
        self._signals.clear()

    async def keep(self) -> Outcome:
        """Until the job has ended, or is kept on disk."""
        while True:
            item = await self._next()
            outcome: Outcome | None = None
            match item:
                case _Ended(number) if self.live is not None and number == self.live.number:
                    outcome = await self._ended()
                case _Crossed(number, stopped) if self._stands_since(number):
                    outcome = await self._at_the_limit(stopped)
                case Request():
                    outcome = await self._serve(item)
            if outcome is not None:
                self._refuse_what_waits()
                return outcome

    async def come_back(self, checkpoint: int, limit: int, *, verify: bool) -> None:
        """Bring the job back from a checkpoint under `limit`, when there is room for it. Raises
        OutgrowError; the job is on disk as before then."""
        number = (self._chronicle.incarnation.number if self._chronicle.incarnation else 0) + 1
        cgroup = self._host.hierarchies.cgroup(f"{self.job.id}-{number}")
        self._chronicle.to(State.RESUMING)
        cgroup.create(limit)
        incarnation = Incarnation(
            self.job.id, number, limit, time.time(), first_limit=limit, cgroups=cgroup.paths
        )
        try:
            live = await self._rescue.resume(
                checkpoint,
                incarnation,
                cgroup,
                self._streams.descriptors,
                grace=GRACE,
                verify=verify,
            )
        except OutgrowError as error:
            await self._rescue.remove_cgroup(cgroup)
            self._chronicle.event("resume-failed", incarnation=number, reason=str(error))
            self._chronicle.to(State.RELEASED)
            raise
        streams = tuple((stream.stream, stream.key) for stream in live.streams)
        self.adopt(live, replace(incarnation, init_pid=live.init.pid, streams=streams))
        self._loop.in_thread(lambda: self._delete_checkpoints(before=checkpoint))

    def remember(self, incarnation: Incarnation) -> None:
        """The last incarnation that there was: the next one gets the number after it."""
        self._chronicle.incarnation = incarnation

    async def clear_away(self, cgroup: Cgroup) -> None:
        """Remove what is left of an incarnation whose PID 1 is gone."""
        await self._rescue.remove_cgroup(cgroup)

    # -- at the limit

    def _crossed(self, stopped: Stopped) -> None:
        self._post(_Crossed(self._live().number, stopped))

    def _stands_since(self, number: int) -> bool:
        """Whether the crossing of incarnation `number` still holds: a request that was served in
        between has thawed the job, or moved it, and armed the guard anew."""
        live = self.live
        return live is not None and live.alive and live.number == number and live.cgroup.is_frozen()

    async def _at_the_limit(self, stopped: Stopped) -> Outcome | None:
        live = self._live()
        live.tell_frozen()
        self._busy = "it reached its limit"
        self._chronicle.to(State.FROZEN)
        self._rescue.step("frozen", seconds=stopped.seconds, usage=live.cgroup.usage())
        record = self._chronicle.begin_save("limit", stopped.seconds)
        try:
            if not stopped.stands:
                self._leave("its tasks could not all be stopped")
                return None
            if await self._held_up_by_writes(live):
                self._thaw("only unwritten files held it up")
                self._arm()
                return None
            return await self._climb(live, record)
        except CannotSave:  # it was let go meanwhile, and runs
            return None
        finally:
            self._busy = ""

    async def _held_up_by_writes(self, live: LiveIncarnation) -> bool:
        cgroup, band = live.cgroup, self._band(live.cgroup)
        if not only_dirty_cache(cgroup.reading(), cgroup.limit, band):
            return False
        target = cgroup.limit - 2 * band
        await self._loop.in_thread(lambda: cgroup.drop_cache(target))
        return cgroup.usage() < cgroup.limit - band

    async def _climb(self, live: LiveIncarnation, record: SaveRecord) -> Outcome | None:
        tried: set[Action] = set(self._ladder.spent)
        while True:
            decision = self._ladder.decide(live.cgroup, frozenset(tried))
            self._chronicle.event("decision", decision=repr(decision))
            match decision:
                case Grow(limit):
                    if self._grow(live, limit):
                        return None
                    tried.add(Action.GROW)
                case Move(limit):
                    saved = await self._try_save(live, record)
                    if saved is not None:
                        return await self._move(live, saved, limit)
                    tried.add(Action.MOVE)
                case Keep(reason):
                    saved = await self._try_save(live, record)
                    if saved is not None:
                        return await self._keep_on_disk(live, saved, reason)
                    tried.add(Action.MOVE)
                case Warn(number, grace):
                    self._warn(live, number, grace)
                    return None
                case Leave(reason):
                    self._leave(reason)
                    return None
            if live.let_go:
                self._thaw("it was let go while it was being saved")
                self._arm()
                return None
            if not live.alive:
                return None

    def _grow(self, live: LiveIncarnation, limit: int) -> bool:
        before = live.cgroup.limit
        try:
            live.cgroup.set_limit(limit)
        except OSError:
            return False
        live.renew_undo()
        self._chronicle.set_incarnation(limit=limit)
        self._chronicle.event("grown", before=before, limit=limit)
        self._thaw("")
        self._arm()
        self._say(
            f"{self.job.name} reached {format_size(before)};"
            f" its limit is now {format_size(limit)}, nothing stopped"
        )
        return True

    def _warn(self, live: LiveIncarnation, number: int, grace: float) -> None:
        self._ladder.spent.add(Action.WARN)
        name = signal.Signals(number).name
        self._chronicle.event("warned", signal=name, grace=grace)
        live.cgroup.disarm()
        self._thaw("warned")
        live.signal(number, group=False)
        self._say(
            f"{self.job.name} is at its limit of {format_size(live.cgroup.limit)}: sent {name},"
            f" it has {format_seconds(grace)}"
        )
        self._loop.later(grace, self._arm)

    def _leave(self, reason: str) -> None:
        live = self._live()
        live.cgroup.disarm()
        self._thaw(f"left to the kernel: {reason}")
        self._sampler.when_below(
            live.cgroup.limit - self._band(live.cgroup) - self._band(live.cgroup) // 2, self._arm
        )

    # -- requests

    async def _serve(self, request: Request) -> Outcome | None:
        try:
            return await self._obey(request)
        except OutgrowError as error:
            request.answer.fail(error)
            return None
        finally:
            self._busy = ""

    async def _obey(self, request: Request) -> Outcome | None:
        live = self._live()
        if not live.alive:
            raise CannotSave("the job ended by itself before that")
        if request.verb == "kill":
            self._killed_by_request = True
            self._chronicle.event("killed", signal=request.signal)
            live.signal(request.signal, group=False)
            self._loop.later(GRACE, live.kill)
            request.answer.set({"killed": self.job.id})
            return None
        if request.verb == "move":
            self._check_size(live, request.memory)
        self._busy = "it is being saved"
        record = self._chronicle.begin_save(request.verb, self._freeze(live))
        saved = await self._save(live, record)
        answer: dict[str, object] = {
            "job": self.job.id,
            "checkpoint": saved.checkpoint.number,
            "bytes": saved.checkpoint.size,
        }
        if request.verb == "move":
            outcome = await self._move(live, saved, request.memory)
            if outcome is not None:
                request.answer.fail(Transient(outcome.message))
        elif request.stop:
            outcome = await self._keep_on_disk(live, saved, "as asked")
        else:
            outcome = None
            self._thaw("saved")
            number = saved.checkpoint.number
            self._loop.in_thread(lambda: self._delete_checkpoints(before=number))
            self._chronicle.end_save(saved.record, "saved")
            self._arm()
        request.answer.set(answer)
        return outcome

    def _check_size(self, live: LiveIncarnation, memory: int) -> None:
        own, band = live.cgroup.reading().own, self.job.policy.band(memory)
        if own > memory - band:
            raise Usage(
                f"{format_size(memory)} cannot hold the job: it uses {format_size(own)}",
                preserved="the job runs on",
                remedy=f"give more than {format_size(own + band)}",
            )
        if memory > self._host.scheduler.cap():
            raise Usage(
                f"this host can never give {format_size(memory)}",
                preserved="the job runs on",
                remedy=f"give at most {format_size(self._host.scheduler.cap())}",
            )

    def _freeze(self, live: LiveIncarnation) -> float:
        """Freeze outside of the guard. The seconds that it took."""
        began = self._host.clock.monotonic()
        live.tell_frozen()
        self._chronicle.to(State.FROZEN)
        stands = live.cgroup.freeze(FREEZE_TIMEOUT)
        self._guard.hold(live.cgroup)
        self._rescue.step("frozen")
        if not stands:
            self._thaw("its tasks could not all be stopped")
            self._arm()
            raise CannotSave(
                "some of its tasks could not be stopped (they wait in the kernel)",
                preserved="the job runs on",
                remedy="see what they wait for: cat /proc/PID/stack",
            )
        return self._host.clock.monotonic() - began

    # -- save, move, keep

    async def _try_save(self, live: LiveIncarnation, record: SaveRecord) -> Saved | None:
        try:
            return await self._save(live, record, thaw_on_failure=False)
        except OutgrowError as error:
            self._say(f"{self.job.name} could not be saved: {error}")
            return None

    async def _save(
        self, live: LiveIncarnation, record: SaveRecord, *, thaw_on_failure: bool = True
    ) -> Saved:
        self._chronicle.to(State.SAVING)
        try:
            saved = await self._rescue.save(live, record)
        except OutgrowError as error:
            self._chronicle.end_save(record, "thawed", str(error))
            if thaw_on_failure and live.alive:
                self._thaw(str(error))
                self._arm()
            else:
                self._chronicle.back_to(State.FROZEN)
            raise
        self._chronicle.to(State.SAVED)
        return saved

    async def _release(self, live: LiveIncarnation, saved: Saved) -> SaveRecord:
        self._guard.disarm_events()
        self._sampler.stop()
        peak = live.cgroup.peak()
        try:
            record = await self._rescue.release(live, saved)
        except CannotSave:
            self._sampler.follow(live.cgroup, live.number)
            self._chronicle.end_save(saved.record, "thawed", "it ran on")
            if live.alive:
                self._thaw("it ran on while it was being saved")
                self._arm()
            raise
        live.close()
        self._chronicle.end_incarnation("released", peak)
        self._chronicle.to(State.RELEASED)
        return record

    async def _move(self, live: LiveIncarnation, saved: Saved, limit: int) -> Outcome | None:
        record = await self._release(live, saved)
        before = self._host.clock.monotonic()
        if not await self._wait_for_room(limit):
            self._chronicle.end_save(record, "kept", "stopped while it waited for room")
            return self._kept(limit, "it was stopped while it waited for room")
        waited = self._host.clock.monotonic() - before
        began = self._host.clock.monotonic()
        try:
            await self._come_back_twice(saved.checkpoint.number, limit)
        except OutgrowError as error:
            self._chronicle.end_save(record, "kept", str(error))
            return self._kept(limit, str(error))
        record = replace(
            record,
            wait_seconds=waited,
            resume_seconds=self._host.clock.monotonic() - began,
        )
        record = self._chronicle.end_save(record, "moved")
        why = "reached" if record.cause == "limit" else "was moved from"
        self._say(
            f"{self.job.name} {why} {format_size(live.cgroup.limit)};"
            f" saved {format_size(record.size)} and continues with {format_size(limit)},"
            f" {format_seconds(record.paused_seconds)} paused, nothing lost"
        )
        return None

    async def _come_back_twice(self, checkpoint: int, limit: int) -> None:
        try:
            await self.come_back(checkpoint, limit, verify=False)
        except Transient:
            await self.come_back(checkpoint, limit, verify=True)

    async def _wait_for_room(self, needed: int) -> bool:
        """Until this host has `needed` bytes for the job; False when it was told to stop."""
        told = False
        while self._host.scheduler.room() < min(needed, self._host.scheduler.cap()):
            if not told:
                told = True
                self._chronicle.to(State.QUEUED)
                self._rescue.step("queued", needed=needed)
                self._say(
                    f"{self.job.name} waits, saved on disk, until this host has"
                    f" {format_size(needed)}"
                )
            await self._loop.sleep(_LOOK_FOR_ROOM)
            if self._gave_up_waiting or self._kill_is_waiting():
                self._chronicle.to(State.RELEASED)
                return False
        return True

    def _kill_is_waiting(self) -> bool:
        return any(isinstance(item, Request) and item.verb == "kill" for item in self._queue)

    async def _keep_on_disk(self, live: LiveIncarnation, saved: Saved, reason: str) -> Outcome:
        record = await self._release(live, saved)
        self._chronicle.end_save(record, "kept", reason)
        return self._kept(live.cgroup.limit, reason)

    def _kept(self, limit: int, reason: str) -> Outcome:
        kills = [item for item in self._queue if isinstance(item, Request) and item.verb == "kill"]
        if kills:
            return self._killed_on_disk(kills)
        self._chronicle.set_job(reason=reason)
        more = "" if reason == "as asked" else f" --memory {format_option(2 * limit)}"
        return Outcome(
            None,
            f"{self.job.name} is saved and kept ({reason}); nothing is lost;"
            f" go on with: outgrow resume {self.job.id}{more}",
        )

    def _killed_on_disk(self, kills: list[Request]) -> Outcome:
        for request in kills:
            request.answer.set({"killed": self.job.id})
        status = 128 + kills[0].signal
        self._chronicle.to(State.ENDED)
        self._chronicle.set_job(exit_status=status, reason="killed as asked", ended=time.time())
        self._delete_checkpoints(before=None)
        return Outcome(status)

    # -- the end

    async def _ended(self) -> Outcome:
        live = self._live()
        self._guard.disarm_events()
        self._sampler.stop()
        record = live.exit_record()
        peak, oom_kills = live.cgroup.peak(), live.cgroup.oom_kills()
        live.close()
        self.live = None
        await self._rescue.remove_cgroup(live.cgroup)
        return self.settle_end(
            live.number, None if record is None else record.status, peak=peak, oom_kills=oom_kills
        )

    def settle_end(
        self, number: int, wait_status: int | None, *, peak: int = 0, oom_kills: int = 0
    ) -> Outcome:
        """Write down that the job ended with `wait_status` (None: nobody saw it end)."""
        checkpoints = self._host.store.checkpoints(self.job.id)
        status, reason = ending.exit_status(wait_status), ending.reason(wait_status, oom_kills)
        goes_back = ending.was_killed(wait_status) and checkpoints and not self._killed_by_request
        state = State.LOST if wait_status is None or goes_back else State.ENDED
        self._chronicle.end_incarnation(reason or f"exit {status}", peak)
        self._chronicle.to(state)
        self._chronicle.set_job(exit_status=status, reason=reason, ended=time.time())
        self._rescue.step("ended", incarnation=number, status=status, reason=reason)
        if state is State.ENDED:
            self._delete_checkpoints(before=None)
            return Outcome(status)
        if not checkpoints:
            return Outcome(status, f"{self.job.name} was lost: {reason}")
        return Outcome(
            status,
            f"{self.job.name} was killed ({reason}); its checkpoint {checkpoints[-1]} is kept;"
            f" go back to it with: outgrow resume {self.job.id}",
        )

    # -- small things

    def _live(self) -> LiveIncarnation:
        if self.live is None:
            raise CannotSave("the job has no process now")
        return self.live

    def _arm(self) -> None:
        live = self.live
        if live is None or not live.alive or self.job.state is not State.RUNNING:
            return
        if not self.job.policy.guarded or live.cgroup.limit >= NO_LIMIT:
            live.cgroup.disarm()
        else:
            try:
                self._guard.arm(live.cgroup, self._band(live.cgroup))
            except OSError as error:
                self._chronicle.event("unguarded", reason=str(error))
                self._say(f"{self.job.name} cannot be guarded ({error}); the kernel's rule stands")

    def _band(self, cgroup: Cgroup) -> int:
        return self.job.policy.band(cgroup.limit)

    def _thaw(self, reason: str) -> None:
        live = self._live()
        live.thaw()
        self._chronicle.event("thawed", reason=reason)
        self._chronicle.to(State.RUNNING)
        self._rescue.step("thawed")
        for number in self._signals:
            live.signal(number, group=number in TO_THE_GROUP)
        self._signals.clear()

    def _delete_checkpoints(self, before: int | None) -> None:
        for number in self._host.store.checkpoints(self.job.id):
            if before is None or number < before:
                self._host.store.delete(self.job.id, number)
                self._chronicle.event("checkpoint-deleted", number=number)

    def _refuse_what_waits(self) -> None:
        for item in self._queue:
            if isinstance(item, Request):
                item.answer.fail(CannotSave("the job ended, or was kept on disk, before that"))

    def _post(self, item: object) -> None:
        self._queue.append(item)
        self._posted.set(None)

    async def _next(self) -> object:
        while not self._queue:
            self._posted = Future()
            await self._posted
        return self._queue.popleft()
