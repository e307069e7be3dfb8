"""The keeper of one job: guards it, rescues it, serves requests, and sees it end.

What happens from outside (the guard's crossing, a request, the end) is put into one queue and
dealt with in order; only the guard's freeze happens at once.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from outgrow.agent.custody import Custody
from outgrow.agent.guard import Stopped
from outgrow.agent.host import Host
from outgrow.agent.incarnation import LiveIncarnation
from outgrow.agent.limit import AtTheLimit
from outgrow.agent.loop import Future, Loop
from outgrow.agent.moves import AS_ASKED, GRACE, Moves
from outgrow.agent.requests import Outcome, Request, Say
from outgrow.agent.rescue import Saved
from outgrow.core import ending
from outgrow.core.errors import Busy, CannotSave, OutgrowError, Transient, Usage
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import SMALLEST_LIMIT
from outgrow.core.units import format_size
from outgrow.launcher.streams import Streams
from outgrow.ports import Cgroup

_FIRST = 1


@dataclass(frozen=True)
class _Crossed:
    incarnation: int
    stopped: Stopped


@dataclass(frozen=True)
class _Ended:
    incarnation: int


class _SaveIsDue:
    """The job's own interval is over."""


class Keeper:
    """See the module. `say` shows a line to whoever watches the job."""

    def __init__(self, host: Host, loop: Loop, job: Job, streams: Streams, say: Say) -> None:
        self._custody = Custody(host, loop, job, streams=streams, say=say, on_growth=self._crossed)
        self._moves = Moves(self._custody, self._kill_is_waiting)
        self._limit = AtTheLimit(self._custody, self._moves)
        self._host = host
        self._chronicle = self._custody.chronicle
        self._queue: deque[object] = deque()
        self._posted: Future[None] = Future()
        self._busy = ""
        self._killed_by_request = False
        self._told_not_saved = ""  # why, when its last interval was over

    @property
    def job(self) -> Job:
        """The job as it is now."""
        return self._custody.job

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
        if not self._moves.take_signal(number):
            self._custody.deliver(number)

    # -- the job's life

    def guard_from_the_start(self, cgroup: Cgroup) -> None:
        """Guard the cgroup that the first incarnation is about to start in: a program may grow
        before it is known here that it runs."""
        self._custody.arm_cgroup(cgroup)

    def adopt(self, live: LiveIncarnation, incarnation: Incarnation) -> None:
        """Keep an incarnation that runs."""
        self._custody.take(live, incarnation)
        self._expect_end()

    async def come_back(self, checkpoint: int, limit: int) -> None:
        """Bring the job back from a checkpoint, every byte of which was just checked. Raises
        OutgrowError; the job is on disk as before then."""
        await self._moves.come_back(checkpoint, limit)
        self._expect_end()

    def count_lost(self, seconds: float) -> None:
        """The job came back to an earlier instant."""
        if seconds:
            self._chronicle.set_job(work_lost_seconds=self.job.work_lost_seconds + seconds)
            self._chronicle.event("work-lost", seconds=seconds)

    def remember(self, incarnation: Incarnation) -> None:
        """The last incarnation that there was: the next one gets the number after it."""
        self._chronicle.incarnation = incarnation

    async def keep(self) -> Outcome:
        """Until the job has ended, or is kept on disk."""
        self._plan_a_save()
        while True:
            item = await self._next()
            outcome: Outcome | None = None
            match item:
                case _Ended(number) if self._is_current(number):
                    outcome = await self._ended()
                case _Crossed(number, stopped) if self._still_holds(number, stopped):
                    outcome = await self._at_the_limit(stopped)
                case _SaveIsDue():
                    await self._save_at_its_interval()
                case Request():
                    outcome = await self._serve(item)
            if outcome is not None:
                return self._conclude(outcome)

    async def _at_the_limit(self, stopped: Stopped) -> Outcome | None:
        self._busy = "it reached its limit"
        before = self._custody.live
        try:
            return await self._limit.climb(stopped)
        except Exception as error:  # whatever it is, the job comes first
            return self._fail_open(error)
        finally:
            self._busy = ""
            if self._custody.live is not before:
                self._expect_end()

    async def _save_at_its_interval(self) -> None:
        live = self._custody.live
        if live is None or not live.alive:
            return
        self._busy = "it is being saved"
        try:
            await self._stop_and_save("interval", run_on=True)
        except OutgrowError as error:
            if str(error) != self._told_not_saved:
                self._told_not_saved = str(error)
                self._custody.say(f"{self.job.name} was not saved: {error}", trouble=True)
        except Exception as error:  # whatever it is, the job comes first
            self._fail_open(error)
        finally:
            self._busy = ""
            self._plan_a_save()

    async def _stop_and_save(self, cause: str, *, run_on: bool) -> Saved:
        """The checkpoint of a job that still stands frozen, unless it was to run on. Raises
        OutgrowError, and it runs."""
        live = self._custody.the_living()
        standing = await self._custody.stop_for_a_save()
        record = self._chronicle.begin_save(cause, standing.seconds)
        try:
            save = self._moves.save_and_run_on if run_on else self._moves.save
            return await save(record, standing.obstacles)
        except OutgrowError as error:
            if live.alive:
                self._custody.run_on(str(error))
            raise

    def _plan_a_save(self) -> None:
        """So long after the last one ended: a job never does nothing but being saved."""
        if self.job.saving.every is not None:
            self._custody.loop.later(self.job.saving.every, lambda: self._post(_SaveIsDue()))

    def _fail_open(self, error: Exception) -> Outcome | None:
        """Something that nobody expected: the job runs on under the kernel's rule, or stays on
        disk."""
        self._chronicle.event("failed", error=repr(error))
        live = self._custody.live
        if live is not None and live.alive:
            self._custody.say(f"outgrow failed ({error!r}); {self.job.name} runs on", trouble=True)
            self._custody.give_back()
            return None
        return Outcome(
            None,
            f"outgrow failed ({error!r}); {self.job.name} is on disk;"
            f" go on with: outgrow resume {self.job.id}",
        )

    # -- requests

    async def _serve(self, request: Request) -> Outcome | None:
        before = self._custody.live
        try:
            return await self._obey(request)
        except OutgrowError as error:
            request.answer.fail(error)
            return None
        except Exception as error:  # whatever it is, the job comes first
            request.answer.fail(Transient(f"outgrow failed: {error!r}"))
            return self._fail_open(error)
        finally:
            self._busy = ""
            if self._custody.live is not before:
                self._expect_end()

    async def _obey(self, request: Request) -> Outcome | None:
        live = self._custody.the_living()
        if not live.alive:
            raise CannotSave("the job ended by itself before that")
        if request.verb == "kill":
            self._kill(live, request)
            return None
        if request.verb == "move":
            self._check_size(live, request.memory)
        self._busy = "it is being saved"
        run_on = request.verb == "save" and not request.stop
        saved = await self._stop_and_save(request.verb, run_on=run_on)
        outcome: Outcome | None = None
        if request.verb == "move":
            outcome = await self._moves.move(saved, request.memory)
            if outcome is not None:
                request.answer.fail(Transient(outcome.message))
        elif request.stop:
            outcome = await self._moves.keep_on_disk(saved, AS_ASKED)
        request.answer.set(
            {
                "job": self.job.id,
                "checkpoint": saved.checkpoint.number,
                "bytes": saved.checkpoint.size,
            }
        )
        return outcome

    def _kill(self, live: LiveIncarnation, request: Request) -> None:
        self._killed_by_request = True
        self._chronicle.event("killed", signal=request.signal)
        live.signal(request.signal, group=False)
        self._custody.loop.later(GRACE, self._kill_now)
        request.answer.set({"killed": self.job.id})

    def _kill_now(self) -> None:
        if self._custody.live is not None:
            self._custody.live.kill()

    def _check_size(self, live: LiveIncarnation, memory: int) -> None:
        if memory < SMALLEST_LIMIT:
            raise Usage(
                f"{format_size(memory)} is too little to bring a job back in",
                preserved="the job runs on",
                remedy=f"give at least {format_size(SMALLEST_LIMIT)}",
            )
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

    # -- the end

    async def _ended(self) -> Outcome:
        live = self._custody.the_living()
        self._custody.stop_watching()
        status = live.wait_status()
        peak, oom_kills = live.cgroup.peak(), live.cgroup.oom_kills()
        live.close()
        self._custody.live = None
        await self._custody.rescue.remove_cgroup(live.cgroup)
        return self.settle_end(status, peak=peak, oom_kills=oom_kills)

    def settle_end(self, wait_status: int | None, *, peak: int = 0, oom_kills: int = 0) -> Outcome:
        """Write down that the job ended with `wait_status` (None: nobody saw it end)."""
        checkpoints = self._host.store.checkpoints(self.job.id)
        status, reason = ending.exit_status(wait_status), ending.reason(wait_status, oom_kills)
        goes_back = ending.was_killed(wait_status) and checkpoints and not self._killed_by_request
        state = State.LOST if wait_status is None or goes_back else State.ENDED
        self._chronicle.end_incarnation(reason or f"exit {status}", peak)
        self._chronicle.to(state)
        self._chronicle.set_job(exit_status=status, reason=reason, ended=time.time())
        self._custody.rescue.step("ended", status=status, reason=reason)
        if state is State.ENDED:
            self._custody.delete_checkpoints(before=None)
            return Outcome(status)
        if not checkpoints:
            return Outcome(status, f"{self.job.name} was lost: {reason}")
        return Outcome(
            status,
            f"{self.job.name} was killed ({reason}); its checkpoint {checkpoints[-1]} is kept;"
            f" go back to it with: outgrow resume {self.job.id}",
        )

    def _conclude(self, outcome: Outcome) -> Outcome:
        """Answer whoever still waits. A job on disk that is to be killed ends there."""
        waiting = [item for item in self._queue if isinstance(item, Request)]
        kill = next((request for request in waiting if request.verb == "kill"), None)
        if outcome.status is None and kill is not None:
            status = 128 + kill.signal
            self._chronicle.to(State.ENDED)
            self._chronicle.set_job(exit_status=status, reason="killed as asked", ended=time.time())
            self._custody.delete_checkpoints(before=None)
            kill.answer.set({"killed": self.job.id})
            outcome = Outcome(status)
        for request in waiting:
            request.answer.fail(CannotSave("the job ended, or was kept on disk, before that"))
        return outcome

    # -- the queue

    def _crossed(self, stopped: Stopped) -> None:
        live = self._custody.live
        self._post(_Crossed(live.number if live else _FIRST, stopped))

    def _expect_end(self) -> None:
        live = self._custody.live
        if live is not None:
            number = live.number
            live.ended.then(lambda: self._post(_Ended(number)))

    def _is_current(self, number: int) -> bool:
        return self._custody.live is not None and self._custody.live.number == number

    def _still_holds(self, number: int, stopped: Stopped) -> bool:
        """Whether that crossing of incarnation `number` still does: a request that was served in
        between has thawed the job, or moved it, and armed the guard anew."""
        live = self._custody.live
        if live is None or not live.alive or not self._is_current(number):
            return False
        if not stopped.stands:
            return True  # it could not be stopped, or not be watched, and nobody guards it
        try:
            return live.cgroup.is_frozen()
        except OSError:
            return False  # its cgroup is gone, and its end on the way

    def _kill_is_waiting(self) -> bool:
        return any(isinstance(item, Request) and item.verb == "kill" for item in self._queue)

    def _post(self, item: object) -> None:
        self._queue.append(item)
        self._posted.set(None)

    async def _next(self) -> object:
        while not self._queue:
            self._posted = Future()
            await self._posted
        return self._queue.popleft()
