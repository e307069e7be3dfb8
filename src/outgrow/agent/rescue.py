"""The rescue as a saga: freeze, dump, commit, release, resume.

Each step is journalled when it begins and when it is done, and has its undo. Until `commit` is
done every failure thaws the job; after it the job is on disk, and only PID 1 of the job decides
whether it may still be released (it may not once the job has run again).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from outgrow.agent import faults, preflight
from outgrow.agent.host import Host
from outgrow.agent.incarnation import LiveIncarnation
from outgrow.agent.loop import Future, Loop
from outgrow.agent.unwritten import note, put_right
from outgrow.agent.written import capture
from outgrow.core.errors import CannotSave, Transient
from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.core.obstacles import Obstacle
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import MIB, format_size
from outgrow.kernel import proc
from outgrow.kernel.sockets import taken
from outgrow.launcher import records
from outgrow.launcher.handle import inherited_streams, start_init
from outgrow.launcher.pids import last_pid_before_gap
from outgrow.launcher.streams import Descriptors, external_streams
from outgrow.ports import Cgroup, Description, Draft, DumpRequest

AT_THE_LIMIT = "limit"
"""The cause of a save that cannot be put off."""
_DUMP_TIMEOUT = 3600.0
_LOOK_AT_TRACING = 0.1
_LOOK_AT_STARVING = 0.5
_WRITE_AHEAD = 0.1
_IMAGE_OVERHEAD = 16 * MIB
"""What a checkpoint has beside the job's pages: CRIU's other images, its log, the manifest."""


@dataclass(frozen=True)
class Written:
    """A checkpoint that only has to be committed: what it was written from may change now."""

    draft: Draft
    description: Description
    record: SaveRecord
    not_copied: tuple[str, ...] = ()
    """Of each file that the job rewrites and that has no copy: its name, and why."""
    lost: tuple[str, ...] = ()
    """What no engine could write down, of a job that could not wait."""


@dataclass(frozen=True)
class Saved:
    """A committed checkpoint."""

    checkpoint: Checkpoint
    record: SaveRecord


class Rescue:
    """The steps for one job."""

    def __init__(self, host: Host, loop: Loop, job: Job) -> None:
        self._host = host
        self._loop = loop
        self._job = job

    def step(self, name: str, **data: object) -> None:
        """A step is reached: in the journal, and for the tests of what happens when we die here."""
        self._host.journal.event(self._job.id, "step", name=name, **data)
        faults.reached(name)

    async def write(
        self, live: LiveIncarnation, record: SaveRecord, obstacles: Sequence[Obstacle]
    ) -> Written:
        """Dump a job that stands frozen, with its files: from here on it may run, or be committed
        as it stands. Raises OutgrowError when that came to nothing: no draft is left then, and the
        caller thaws."""
        started = self._host.clock.monotonic()
        lost = preflight.check(obstacles, at_the_limit=record.cause == AT_THE_LIMIT)
        pids = live.cgroup.processes()  # it stands: there are no others until it is thawed
        reading = live.cgroup.reading()
        needed = reading.own + _IMAGE_OVERHEAD
        if self._host.store.room() < needed:
            raise Transient(
                f"the store {self._host.store.root} has"
                f" {format_size(self._host.store.room())}, the job needs {format_size(needed)}",
                preserved="the job runs on",
                remedy="free some room, or name another --state-dir",
            )
        draft = self._host.store.begin(self._job.id)
        try:
            self.step("dumping", checkpoint=draft.number)
            description = self._describe(live, draft, reading.own, pids)
            description, connected = await self._loop.in_thread(
                lambda: note(description, pids, live.init.pid)
            )
            request = DumpRequest(
                root_pid=live.root_pid,
                images=draft.images,
                freezer_path=live.cgroup.freezer_path,
                streams=description.streams,
                connected=connected,
                lossy=bool(lost),
                timeout=_DUMP_TIMEOUT,
            )
            dump = self._loop.spawn(self._host.engine.dump(request, live))
            self._loop.spawn(self._let_stopped_tasks_be_traced(live, dump, pids))
            self._loop.spawn(self._write_ahead(draft, dump))
            await dump
            dumped = self._host.clock.monotonic()
            self.step("dumped")
            description, not_copied = await self._with_files(description, draft, pids)
            self._check_still_frozen(live)
        except Exception:
            await self._loop.in_thread(lambda: self._host.store.abandon(draft))
            raise
        record = replace(record, dump_seconds=dumped - started, usage_before=reading.usage)
        return Written(draft, description, record, not_copied, lost)

    async def commit(self, written: Written) -> Saved:
        """Make it durable. Raises OutgrowError when that came to nothing: no draft is left then."""
        started = self._host.clock.monotonic()
        draft, description = written.draft, written.description
        self.step("committing")
        try:
            checkpoint = await self._loop.in_thread(
                lambda: self._host.store.commit(draft, description)
            )
        except Exception:
            await self._loop.in_thread(lambda: self._host.store.abandon(draft))
            raise
        self._host.journal.checkpoint(checkpoint)
        self.step("committed", checkpoint=checkpoint.number)
        record = replace(
            written.record,
            checkpoint=checkpoint.number,
            commit_seconds=self._host.clock.monotonic() - started,
            size=checkpoint.size,
        )
        return Saved(checkpoint, record)

    async def release(self, live: LiveIncarnation, saved: Saved) -> SaveRecord:
        """End the incarnation and give its memory back. Raises CannotSave, and the job runs on,
        when it has run since it was frozen."""
        started = self._host.clock.monotonic()
        self.step("releasing")
        if not await live.release(saved.checkpoint.number):
            raise CannotSave("the job ran on while it was being saved", preserved="the job runs on")
        left = await self.remove_cgroup(live.cgroup)
        record = replace(
            saved.record,
            release_seconds=self._host.clock.monotonic() - started,
            released=max(0, saved.record.usage_before - left),
        )
        self.step("released", bytes=record.released)
        return record

    async def remove_cgroup(self, cgroup: Cgroup) -> int:
        """Remove an incarnation's cgroup once its last process is gone; the bytes that it still
        held then (page cache, which now belongs to its parent)."""
        left = 0
        while True:
            try:
                with suppress(FileNotFoundError):  # it was not made, or is gone
                    # Whatever froze them: a task that is to die must be let go for that.
                    cgroup.thaw()
                    left = cgroup.usage()
                cgroup.remove()
            except OSError:
                await self._loop.sleep(0.01)
            else:
                return left

    async def resume(
        self,
        checkpoint: int,
        incarnation: Incarnation,
        cgroup: Cgroup,
        descriptors: Descriptors,
        *,
        grace: float,
        verify: bool,
    ) -> LiveIncarnation:
        """Start `incarnation` from a checkpoint, in `cgroup`, which exists. On return it
        runs, braced and unguarded. Raises Damaged, Busy, or Transient with the engine's reason;
        nothing of the job runs then, and the checkpoint is as it was."""
        number = incarnation.number
        description, images = await self._loop.in_thread(
            lambda: self._host.store.open(self._job.id, checkpoint, verify=verify)
        )
        if cgroup.limit < NO_LIMIT:
            room = self._host.engine.restore_room(images)
            cgroup.brace(self._job.policy.band(cgroup.limit), room)
        run_dir = self._host.state.run(self._job.id)
        records.forget(run_dir, number)
        self._host.journal.incarnation(incarnation)
        self.step("resuming", checkpoint=checkpoint, incarnation=number)
        init = start_init(
            run_dir,
            number,
            cgroup=cgroup,
            grace=grace,
            streams=descriptors,
            restore={
                "argv": self._host.engine.restore_argv(
                    images, inherited_streams(description.streams)
                ),
                "root": description.root_pid,
                "last_pid": _last_pid(description),
            },
        )
        live = LiveIncarnation(self._loop, number, cgroup, init, run_dir, descriptors)
        self.step("restoring")
        self._loop.spawn(self._give_up_when_starved(live))
        outcome = await live.started
        if outcome["event"] == "failed":
            await live.ended
            live.close()
            raise self._not_back(checkpoint, description, images)
        self.step("resumed", incarnation=number)
        resets = await self._loop.in_thread(lambda: put_right(cgroup, description))
        if resets:
            self._host.journal.event(self._job.id, "connections-reset", number=resets)
        return live

    def _not_back(self, checkpoint: int, description: Description, images: Path) -> Transient:
        remedy = f"try `outgrow resume {self._job.id}` again"
        in_the_way = [str(listener) for listener in taken(description.listeners)]
        if in_the_way:
            reason = f"somebody else listens at {', '.join(in_the_way)} now"
            remedy = f"end what has it (`ss -ltnp` shows it), and {remedy}"
        else:
            reason = f"CRIU could not bring it back: {self._host.engine.restore_error(images)}"
        return Transient(
            f"the job is still on disk: {reason}",
            preserved=f"its checkpoint {checkpoint} is kept",
            remedy=remedy,
        )

    async def _give_up_when_starved(self, live: LiveIncarnation) -> None:
        """An engine that waits at the job's limit would wait for ever."""
        while not live.started.done:
            await self._loop.sleep(_LOOK_AT_STARVING)
            if not live.started.done and live.cgroup.is_starved():
                self.step("starved")
                live.kill()

    async def _let_stopped_tasks_be_traced(
        self, live: LiveIncarnation, dump: Future[None], pids: list[int]
    ) -> None:
        """The engine thaws the job itself once it holds all of its tasks; one that a signal had
        stopped it cannot get hold of before that. Then it is thawed at once: the others are held
        already, or will be in a moment."""
        while not dump.done:
            await self._loop.sleep(_LOOK_AT_TRACING)
            if not dump.done and any(proc.hinders_its_tracer(pid) for pid in pids):
                self.step("thawed-for-tracing")
                live.cgroup.thaw()

    async def _write_ahead(self, draft: Draft, dump: Future[None]) -> None:
        """The disk works while the engine does: by itself the kernel begins to write when a tenth
        of memory is dirty, or after 30 s (vm.dirty_background_ratio, vm.dirty_expire_centisecs)."""
        while not dump.done:
            await self._loop.in_thread(lambda: self._host.store.write_ahead(draft))
            await self._loop.sleep(_WRITE_AHEAD)

    async def _with_files(
        self, description: Description, draft: Draft, host_pids: list[int]
    ) -> tuple[Description, tuple[str, ...]]:
        streams = [stream.path for stream in description.streams if stream.path]
        room = max(0, self._host.store.room() - _IMAGE_OVERHEAD)
        most = min(self._job.saving.copy_files, room)
        files, not_copied = await self._loop.in_thread(
            lambda: capture(host_pids, self._job.owner, streams, draft.images, most)
        )
        if not_copied:
            self._host.journal.event(self._job.id, "files-not-copied", why=not_copied)
        return replace(description, files=files), not_copied

    def _describe(
        self, live: LiveIncarnation, draft: Draft, own: int, host_pids: list[int]
    ) -> Description:
        pids: set[int] = set()
        for pid in proc.with_zombies(host_pids):
            pids |= proc.namespace_ids(pid)
        if not pids:
            raise Transient("the job ended by itself before it could be saved")
        return Description(
            job=self._job.id,
            number=draft.number,
            incarnation=live.number,
            owner=self._job.owner,
            created=time.time(),
            limit=live.cgroup.limit,
            own=own,
            root_pid=live.root_pid,
            pids=tuple(sorted(pids)),
            fingerprint=self._host.engine.fingerprint(),
            streams=external_streams(live.descriptors),
        )

    def _check_still_frozen(self, live: LiveIncarnation) -> None:
        if not live.alive:
            raise Transient("the job ended while it was being saved")
        if live.let_go or not live.cgroup.is_frozen():
            raise CannotSave("the job ran on while it was being saved", preserved="it runs on")


def _last_pid(description: Description) -> int:
    try:
        pid_max = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
        return last_pid_before_gap(description.pids, pid_max)
    except ValueError as error:
        raise Transient(f"the job cannot come back: {error}") from None
