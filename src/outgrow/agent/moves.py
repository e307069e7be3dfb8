"""Saving a job, giving its memory back, and carrying it on: the ways from memory to disk and back.

The steps themselves are in agent/rescue.py; this decides what follows when one fails.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from outgrow.agent.custody import Custody
from outgrow.agent.requests import Outcome
from outgrow.agent.rescue import Saved, Written
from outgrow.core.errors import CannotSave, OutgrowError, Transient
from outgrow.core.job import Incarnation, SaveRecord
from outgrow.core.lifecycle import State
from outgrow.core.obstacles import Obstacle
from outgrow.core.units import format_option, format_seconds, format_size

GRACE = 5.0
"""Seconds that what a job leaves in the background has between SIGTERM and SIGKILL."""
_LOOK_FOR_ROOM = 1.0
_ADDRESS_IS_FREE = 1.1
"""Seconds after which the kernel lets the address of a connection that was just closed be used
again (tcp_twsk_unique, net/ipv4/tcp_ipv4.c): those of a job that was killed were."""
_STOPPED_WHILE_WAITING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
AS_ASKED = "as asked"


class Moves:
    """`interrupted` tells whether a job that waits on disk should stop waiting."""

    def __init__(self, custody: Custody, interrupted: Callable[[], bool]) -> None:
        self._custody = custody
        self._host = custody.host
        self._chronicle = custody.chronicle
        self._interrupted = interrupted
        self._told_to_stop = False
        self._told_not_copied: set[str] = set()

    def take_signal(self, number: int) -> bool:
        """Whether the signal was meant for the waiting, and not for the job."""
        if self._custody.job.state is State.QUEUED and number in _STOPPED_WHILE_WAITING:
            self._told_to_stop = True
            return True
        return False

    async def save(self, record: SaveRecord, obstacles: Sequence[Obstacle]) -> Saved:
        """Write down a job that stands frozen, with `obstacles` in the way. Raises OutgrowError: it
        still stands then, and no draft is left."""
        try:
            saved = await self._custody.rescue.commit(await self._write(record, obstacles))
        except OutgrowError as error:
            self._chronicle.end_save(record, "thawed", str(error))
            self._chronicle.back_to(State.FROZEN)
            raise
        self._chronicle.to(State.SAVED)
        return saved

    async def save_and_run_on(self, record: SaveRecord, obstacles: Sequence[Obstacle]) -> Saved:
        """The same for a job that runs on: it does so while its checkpoint is made durable. Raises
        OutgrowError, and it runs."""
        try:
            written = await self._write(record, obstacles)
            self._custody.run_on("written down")
            paused = time.time() - record.started
            saved = await self._custody.rescue.commit(written)
        except OutgrowError as error:
            self._chronicle.end_save(record, "thawed", str(error))
            raise
        self._chronicle.end_save(saved.record, "saved", paused=paused)
        self._drop_checkpoints_before(saved.checkpoint.number)
        return saved

    async def _write(self, record: SaveRecord, obstacles: Sequence[Obstacle]) -> Written:
        self._chronicle.to(State.SAVING)
        self._custody.preflight.stop()  # an engine at its work looks like a tracer
        written = await self._custody.rescue.write(self._custody.the_living(), record, obstacles)
        for what in written.lost:
            self._chronicle.event("lost", what=what)
            self._custody.say(
                f"{self._custody.job.name} was saved without what no engine keeps: {what}",
                trouble=True,
            )
        for why in set(written.not_copied) - self._told_not_copied:
            self._told_not_copied.add(why)
            self._custody.say(
                f"{why}: once {self._custody.job.name} has rewritten it, the job cannot go back to"
                " this save",
                trouble=True,
            )
        return written

    async def move(self, saved: Saved, limit: int) -> Outcome | None:
        """Release a saved job and carry it on under `limit`. An Outcome when it had to stay on
        disk. Raises CannotSave, and it runs on where it is, when it cannot be released."""
        before = self._custody.the_living().cgroup.limit
        record = await self._release(saved)
        waiting = self._host.clock.monotonic()
        if not await self._wait_for_room(limit):
            return self._kept(record, limit, "it was stopped while it waited for room")
        resuming = self._host.clock.monotonic()
        try:
            await self.come_back(saved.checkpoint.number, limit)
        except OutgrowError as error:
            return self._kept(record, limit, str(error))
        record = self._chronicle.end_save(
            replace(
                record,
                wait_seconds=resuming - waiting,
                resume_seconds=self._host.clock.monotonic() - resuming,
            ),
            "moved",
        )
        why = "reached" if record.cause == "limit" else "was moved from"
        self._custody.say(
            f"{self._custody.job.name} {why} {format_size(before)};"
            f" saved {format_size(record.size)} and continues with {format_size(limit)},"
            f" {format_seconds(record.paused_seconds)} paused, nothing lost"
        )
        return None

    async def keep_on_disk(self, saved: Saved, reason: str) -> Outcome:
        """Release a saved job, and leave it at that. Raises CannotSave as `move` does."""
        limit = self._custody.the_living().cgroup.limit
        return self._kept(await self._release(saved), limit, reason)

    async def come_back(self, checkpoint: int, limit: int) -> None:
        """Bring the job back from a checkpoint under `limit`, that was just written, or checked;
        once more when the engine fails at first. Raises OutgrowError; the job is on disk as before
        then."""
        try:
            await self._come_back(checkpoint, limit, verify=False)
        except Transient:
            await self._custody.loop.sleep(_ADDRESS_IS_FREE)
            await self._come_back(checkpoint, limit, verify=True)

    async def _come_back(self, checkpoint: int, limit: int, *, verify: bool) -> None:
        last = self._chronicle.incarnation
        number = (last.number if last else 0) + 1
        cgroup = self._host.hierarchies.cgroup(f"{self._custody.job.id}-{number}")
        self._chronicle.to(State.RESUMING)
        incarnation = Incarnation(
            self._custody.job.id,
            number,
            limit,
            time.time(),
            first_limit=limit,
            cgroups=cgroup.paths,
        )
        try:
            cgroup.create(limit)
            live = await self._custody.rescue.resume(
                checkpoint,
                incarnation,
                cgroup,
                self._custody.streams.descriptors,
                grace=GRACE,
                verify=verify,
            )
        except OutgrowError as error:
            await self._custody.rescue.remove_cgroup(cgroup)
            self._chronicle.event("resume-failed", incarnation=number, reason=str(error))
            self._chronicle.to(State.RELEASED)
            raise
        self._custody.take(live, incarnation)
        self._drop_checkpoints_before(checkpoint)

    async def _release(self, saved: Saved) -> SaveRecord:
        custody, live = self._custody, self._custody.the_living()
        custody.stop_watching()
        peak = live.cgroup.peak()
        try:
            record = await custody.rescue.release(live, saved)
        except CannotSave:
            custody.sampler.follow(live.cgroup, live.number)
            self._chronicle.end_save(saved.record, "thawed", "it ran on")
            if live.alive:
                custody.run_on("it ran on while it was being saved")
            raise
        live.close()
        self._chronicle.end_incarnation("released", peak)
        self._chronicle.to(State.RELEASED)
        return record

    async def _wait_for_room(self, needed: int) -> bool:
        """Until this host has `needed` bytes for the job; False when it was told to stop."""
        scheduler, told = self._host.scheduler, False
        while scheduler.room() < min(needed, scheduler.cap()):
            if not told:
                told = True
                self._chronicle.to(State.QUEUED)
                self._custody.rescue.step("queued", needed=needed)
                self._custody.say(
                    f"{self._custody.job.name} waits, saved on disk, until this host has"
                    f" {format_size(needed)}",
                    trouble=True,
                )
            await self._custody.loop.sleep(_LOOK_FOR_ROOM)
            if self._told_to_stop or self._interrupted():
                self._chronicle.to(State.RELEASED)
                return False
        return True

    def _kept(self, record: SaveRecord, limit: int, reason: str) -> Outcome:
        self._chronicle.end_save(record, "kept", reason)
        self._chronicle.set_job(reason=reason)
        job = self._custody.job
        more = "" if reason == AS_ASKED else f" --memory {format_option(2 * limit)}"
        return Outcome(
            None,
            f"{job.name} is saved and kept ({reason}); nothing is lost;"
            f" go on with: outgrow resume {job.id}{more}",
        )

    def _drop_checkpoints_before(self, number: int) -> None:
        # In a thread: removing gigabytes takes time, in which the guard must not be blind.
        self._custody.loop.in_thread(lambda: self._custody.delete_checkpoints(before=number))
