"""Keeping one job in the foreground: `outgrow run` and `outgrow resume`."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from outgrow import libc
from outgrow.agent.control import ControlServer
from outgrow.agent.host import Host
from outgrow.agent.incarnation import LiveIncarnation, reap_orphans
from outgrow.agent.keeper import Keeper
from outgrow.agent.loop import Loop
from outgrow.agent.moves import GRACE
from outgrow.agent.reliable import become_reliable
from outgrow.agent.requests import Outcome, Say
from outgrow.agent.signals import SignalRelay
from outgrow.agent.truth import keep_alone
from outgrow.core.errors import OutgrowError
from outgrow.core.job import ID_ALPHABET, ID_LENGTH, Incarnation, Job
from outgrow.core.policy import LimitPolicy, SavePolicy
from outgrow.core.units import format_size
from outgrow.kernel import cgroups
from outgrow.launcher import records
from outgrow.launcher.child import Start
from outgrow.launcher.handle import InitHandle, start_init
from outgrow.launcher.streams import Streams, take_streams

_RELAY_DRAINS = 10.0


@dataclass(frozen=True)
class Submission:
    """What a user submits."""

    command: tuple[str, ...]
    name: str
    policy: LimitPolicy
    saving: SavePolicy
    uid: int
    gid: int
    groups: tuple[int, ...]
    directory: str
    environment: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    wait_all: bool = False


class CommandFailed(OutgrowError):
    """The job's command could not be executed; the status is a shell's, 126 or 127."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def run(host: Host, submission: Submission, say: Say) -> Outcome:
    """Start a job and keep it until it has ended or is kept on disk."""
    job = Job(
        id="".join(secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH)),
        name=submission.name,
        owner=submission.uid,
        command=submission.command,
        directory=submission.directory,
        policy=submission.policy,
        saving=submission.saving,
        created=time.time(),
        labels=submission.labels,
    )
    job_run = host.state.run(job.id)
    job_run.mkdir(mode=0o700, parents=True)
    session = Session(host, job, take_streams(), say, keep_alone(job_run, job.id))
    return session.keep(session.start(submission))


class Session:
    """This process, as the keeper of one job, whose lock it holds."""

    def __init__(
        self,
        host: Host,
        job: Job,
        streams: Streams,
        say: Say,
        lock: records.Lock,
    ) -> None:
        self._host = host
        self._streams = streams
        self._run = host.state.run(job.id)
        self._lock = lock
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self._oom_score_adj = become_reliable()
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
            live = LiveIncarnation(
                self._loop, 1, cgroup, init, self._run, self._streams.descriptors
            )
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
        self._keeper.adopt(live, incarnation)

    async def come_back(
        self, checkpoint: int, limit: int, last: Incarnation, work_lost: float
    ) -> None:
        """From a checkpoint, after which the job had run for `work_lost` seconds."""
        self._keeper.remember(last)
        self._keeper.count_lost(work_lost)  # its files are back where they were already
        await self._keeper.come_back(checkpoint, limit)
        self._say(f"{self._keeper.job.name} continues with {format_size(limit)}")

    async def attach(self, last: Incarnation, init: InitHandle) -> None:
        """An incarnation whose keeper is gone."""
        cgroup = cgroups.open_cgroup(last.cgroups)
        cgroup.limit = last.limit
        cgroup.thaw()
        live = LiveIncarnation(
            self._loop, last.number, cgroup, init, self._run, self._streams.descriptors
        )
        await live.started
        self._keeper.adopt(live, last)
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
            wait_all=submission.wait_all,
        )

    def _command_failed(self, program: str, outcome: dict[str, Any]) -> CommandFailed:
        number = int(outcome.get("errno") or 0)
        status = 127 if number in (2, 20) else 126
        self._keeper.settle_end(status << 8)
        reason = os.strerror(number) if number else outcome["what"]
        return CommandFailed(f"{program!r} could not be started: {reason}", status)

    def _settle_streams(self) -> None:
        for descriptor in {*self._streams.descriptors} - {0, 1, 2}:
            os.close(descriptor)  # the job's end of a relay: it drains once we close ours
        for relay in self._streams.relays:
            try:
                relay.wait(_RELAY_DRAINS)
            except subprocess.TimeoutExpired:  # one that reads what nobody ends
                relay.kill()
