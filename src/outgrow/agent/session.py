"""Keeping one job in the foreground: `outgrow run` and `outgrow resume`."""

from __future__ import annotations

import gc
import os
import secrets
import select
import subprocess
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from outgrow import libc
from outgrow.agent.control import ControlServer
from outgrow.agent.host import Host
from outgrow.agent.incarnation import LiveIncarnation, reap_orphans
from outgrow.agent.keeper import Keeper
from outgrow.agent.loop import Loop
from outgrow.agent.moves import GRACE
from outgrow.agent.paths import StateDir
from outgrow.agent.requests import Outcome
from outgrow.agent.signals import SignalRelay
from outgrow.agent.truth import Truth, find_truth
from outgrow.core.errors import Busy, NotFound, OutgrowError, Usage
from outgrow.core.fingerprint import misfits
from outgrow.core.job import ID_ALPHABET, ID_LENGTH, Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import format_size
from outgrow.journal.writer import JournalWriter
from outgrow.kernel import cgroups
from outgrow.launcher import records
from outgrow.launcher.child import Start
from outgrow.launcher.handle import start_init, take_over
from outgrow.launcher.streams import Streams, outer_streams, settle_offset, take_streams
from outgrow.ports import StreamKey
from outgrow.store.posix import PosixStore

_URGENT = -20
_RELAY_DRAINS = 10.0


@dataclass(frozen=True)
class Submission:
    """What a user submits."""

    command: tuple[str, ...]
    name: str
    policy: LimitPolicy
    uid: int
    gid: int
    groups: tuple[int, ...]
    directory: str
    environment: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)


class CommandFailed(OutgrowError):
    """The job's command could not be executed; the status is a shell's, 126 or 127."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def run(host: Host, submission: Submission, say: Callable[[str], None]) -> Outcome:
    """Start a job and keep it until it has ended or is kept on disk."""
    job = Job(
        id="".join(secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH)),
        name=submission.name,
        owner=submission.uid,
        command=submission.command,
        directory=submission.directory,
        policy=submission.policy,
        created=time.time(),
        labels=submission.labels,
    )
    session = _Session(host, job, take_streams(), say)
    return session.keep(session.start(submission))


def resume(
    host: Host, job: Job, last: Incarnation | None, memory: int | None, say: Callable[[str], None]
) -> Outcome:
    """Carry a job on that is on disk, or take one under guard that runs on without a keeper."""
    truth = find_truth(host.state, host.store, job, last)
    if truth.kept:
        raise Busy(f"job {job.id} runs", remedy=f"see `outgrow show {job.id}`")
    if truth.state is State.ENDED or last is None:
        raise NotFound(f"job {job.id} has ended", remedy="start it anew with `outgrow run`")
    job = replace(job, policy=_policy_for(job.policy, last.limit, memory))
    if truth.state is State.RUNNING:
        if memory is not None:
            raise Busy(
                f"job {job.id} runs",
                remedy=f"`outgrow resume {job.id}` without --memory takes it under guard again",
            )
        streams = outer_streams(stream for stream, _ in last.streams)
        session = _Session(host, job, streams, say)
        return session.keep(session.attach(last))
    if truth.checkpoint is None:
        raise NotFound(f"job {job.id} is lost and has no checkpoint", remedy="start it anew")
    description, _ = host.store.open(job.id, truth.checkpoint, verify=False)
    reasons = misfits(description.fingerprint, host.engine.fingerprint())
    if reasons:
        raise Usage(
            f"this host cannot carry job {job.id} on: {'; '.join(reasons)}",
            preserved="its checkpoint is kept",
            remedy="resume it where it was saved, or on a host like it",
        )
    limit = memory or last.limit
    if description.usage > limit:
        raise Usage(
            f"{format_size(limit)} cannot hold the job: it used {format_size(description.usage)}",
            preserved="its checkpoint is kept",
            remedy="give more with --memory",
        )
    lost = 0.0 if truth.certain else _work_lost(host, job, last, description.created)
    job = replace(job, state=truth.state, work_lost_seconds=job.work_lost_seconds + lost)
    streams = outer_streams(stream.stream for stream in description.streams)
    session = _Session(host, job, streams, say)
    return session.keep(session.come_back(truth.checkpoint, limit, last))


def end_unkept(
    state: StateDir,
    store: PosixStore,
    job: Job,
    last: Incarnation | None,
    truth: Truth,
    number: int,
) -> None:
    """End a job that no process keeps: one that runs on by itself gets the signal, then SIGKILL;
    one on disk ends where it is. Blocking."""
    journal = JournalWriter(state.journal)
    if truth.state is State.RUNNING and last is not None:
        init = take_over(state.run(job.id))
        init.tell(op="signal", signal=number, group=False)
        if not select.select([init.pidfd], [], [], GRACE)[0]:
            init.tell(op="end")
            select.select([init.pidfd], [], [], GRACE)
        init.close()
    if last is not None and last.cgroups:
        cgroup = cgroups.open_cgroup(last.cgroups)
        try:
            cgroup.thaw()
            cgroup.remove()
        except OSError:
            pass  # it is gone, or its last process is just going
    for checkpoint in store.checkpoints(job.id):
        store.delete(job.id, checkpoint)
    journal.job(
        replace(
            job,
            state=State.ENDED,
            exit_status=128 + number,
            reason="killed as asked",
            ended=time.time(),
        )
    )
    journal.close()


class _Session:
    """This process, as the keeper of one job."""

    def __init__(self, host: Host, job: Job, streams: Streams, say: Callable[[str], None]) -> None:
        self._host = host
        self._streams = streams
        self._run = host.state.run(job.id)
        self._run.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock = records.Lock(self._run / records.KEEPER)
        except BlockingIOError:
            raise Busy(f"job {job.id} is kept by another process") from None
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self._oom_score_adj = _become_reliable()
        self._loop = Loop()
        self._keeper = Keeper(host, self._loop, job, streams, say)
        self._say = say
        libc.become_subreaper()
        SignalRelay(self._loop, self._keeper.deliver)

    def keep(self, beginning: Coroutine[Any, Any, None]) -> Outcome:
        """Run `beginning`, which brings the job to life, and keep the job until its end."""
        control = ControlServer(self._loop, self._run, self._keeper.job.owner, self._keeper.request)

        async def whole() -> Outcome:
            await beginning
            return await self._keeper.keep()

        try:
            return self._loop.run_until(self._loop.spawn(whole()))
        finally:
            control.close()
            self._settle_streams()
            self._host.journal.settle(5.0)
            reap_orphans()
            self._lock.close()

    async def start(self, submission: Submission) -> None:
        """The first incarnation."""
        job, limit = self._keeper.job, submission.policy.memory
        cgroup = self._host.hierarchies.cgroup(f"{job.id}-1")
        incarnation = Incarnation(
            job.id,
            1,
            limit,
            time.time(),
            first_limit=limit,
            cgroups=cgroup.paths,
            streams=tuple((stream.stream, stream.key) for stream in self._streams.keys),
        )
        self._host.journal.incarnation(incarnation)
        self._host.journal.settle(5.0)
        try:
            cgroup.create(limit)
            self._keeper.guard_from_the_start(cgroup)
            init = start_init(
                self._run,
                1,
                cgroup=cgroup,
                grace=GRACE,
                streams=self._streams.descriptors,
                start=self._how_to_start(submission),
            )
            live = LiveIncarnation(self._loop, 1, cgroup, init, self._run, self._streams.keys)
            outcome = await live.started
        except OutgrowError:
            cgroup.remove()
            self._keeper.settle_end(127 << 8)
            raise
        if outcome["event"] == "failed":
            await live.ended
            live.close()
            cgroup.remove()
            raise self._command_failed(submission.command[0], outcome)
        self._keeper.adopt(live, replace(incarnation, init_pid=init.pid))

    async def come_back(self, checkpoint: int, limit: int, last: Incarnation) -> None:
        """From a checkpoint. What is left of the last incarnation is removed first."""
        self._keeper.remember(last)
        if last.cgroups:
            await self._keeper.clear_away(cgroups.open_cgroup(last.cgroups))
        await self._keeper.come_back(checkpoint, limit)
        self._say(f"{self._keeper.job.name} continues with {format_size(limit)}")

    async def attach(self, last: Incarnation) -> None:
        """An incarnation whose keeper is gone."""
        cgroup = cgroups.open_cgroup(last.cgroups)
        init = take_over(self._run)
        cgroup.limit = last.limit
        cgroup.thaw()
        keys = [StreamKey(stream, key) for stream, key in last.streams]
        live = LiveIncarnation(self._loop, last.number, cgroup, init, self._run, keys)
        await live.started
        self._keeper.adopt(live, replace(last, init_pid=init.pid))
        self._say(f"{self._keeper.job.name} is under guard again")

    def _how_to_start(self, submission: Submission) -> Start:
        umask = os.umask(0o077)
        return Start(
            argv=submission.command,
            directory=submission.directory,
            environment=submission.environment,
            uid=submission.uid,
            gid=submission.gid,
            groups=submission.groups,
            umask=umask,
            nice=self._nice,
            oom_score_adj=self._oom_score_adj,
            streams=self._streams.reopen,
        )

    def _command_failed(self, program: str, outcome: dict[str, Any]) -> CommandFailed:
        number = int(outcome.get("errno") or 0)
        status = 127 if number in (2, 20) else 126
        self._keeper.settle_end(status << 8)
        reason = os.strerror(number) if number else outcome["what"]
        return CommandFailed(f"{program!r} could not be started: {reason}", status)

    def _settle_streams(self) -> None:
        for entry in self._streams.reopen:
            try:
                settle_offset(int(entry["stream"]))
            except OSError:
                continue
        for stream, descriptor in enumerate(self._streams.descriptors):
            if descriptor != stream:  # the job's end of a relay: it drains once we close ours
                os.close(descriptor)
        for relay in self._streams.relays:
            try:
                relay.wait(_RELAY_DRAINS)
            except subprocess.TimeoutExpired:  # one that reads what nobody ends
                relay.kill()


def _policy_for(policy: LimitPolicy, limit: int, memory: int | None) -> LimitPolicy:
    """The job's policy from here on: a --memory above its cap was meant to lift the cap."""
    first = memory or limit
    return replace(policy, memory=first, max_memory=max(policy.max_memory, first))


def _work_lost(host: Host, job: Job, last: Incarnation, saved_at: float) -> float:
    run = host.state.run(job.id)
    record = records.read_exit(run, last.number)
    ended = record.at if record else job.ended
    return max(0.0, (ended or time.time()) - saved_at)


def _become_reliable() -> int:
    """Ahead of what it watches: high priority, in memory, not to be killed first. Each of them
    helps and none is needed. The oom_score_adj that was in force before."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, _URGENT)
    except OSError:
        pass
    try:
        libc.mlockall(libc.MCL_CURRENT | libc.MCL_FUTURE | libc.MCL_ONFAULT)
    except OSError:
        pass
    gc.freeze()
    before = 0
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            before = int(file.read())
            file.seek(0)
            file.write("-1000")
    except OSError:
        pass
    return before
