"""Carrying on what was saved, or taking under guard what runs on without its keeper."""

from __future__ import annotations

import time
from dataclasses import replace

from outgrow.agent import faults
from outgrow.agent.host import Host
from outgrow.agent.put_back import put_back
from outgrow.agent.requests import Outcome, Say
from outgrow.agent.session import Session
from outgrow.agent.truth import Truth, find_truth, keep_alone
from outgrow.core.errors import Busy, NotFound, Transient, Usage
from outgrow.core.fingerprint import misfits
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import format_size
from outgrow.kernel import cgroups
from outgrow.kernel.clearing import kill_and_remove
from outgrow.launcher import records
from outgrow.launcher.handle import take_over
from outgrow.launcher.streams import streams_for, streams_held_by
from outgrow.ports import Description


def resume(host: Host, job: Job, last: Incarnation | None, memory: int | None, say: Say) -> Outcome:
    """Carry a job on that is on disk, or take one under guard that runs on without a keeper.

    Raises Busy when another process keeps it, NotFound when there is nothing to go on from, Damaged
    when its checkpoint is not what was written, Usage when it does not fit here.
    """
    run = host.state.run(job.id)
    if not run.is_dir():
        raise NotFound(f"job {job.id} was forgotten", remedy="start it anew with `outgrow run`")
    lock = keep_alone(run, job.id)
    truth = find_truth(host.state, host.store, job, last, kept=False)
    if truth.state is State.ENDED or last is None:
        raise NotFound(f"job {job.id} has ended", remedy="start it anew with `outgrow run`")
    job = replace(job, policy=_policy_for(job.policy, last.limit, memory))
    if truth.state is State.RUNNING:
        if memory is not None:
            raise Busy(
                f"job {job.id} runs",
                remedy=f"`outgrow resume {job.id}` without --memory takes it under guard again",
            )
        init = take_over(run)
        session = Session(host, job, streams_held_by(init.pidfd), say, lock)
        return session.keep(session.attach(last, init))
    if truth.checkpoint is None:
        raise NotFound(f"job {job.id} is lost and has no checkpoint", remedy="start it anew")
    # Every byte is checked, once, before anything of it is written over what is there.
    description, images = host.store.open(job.id, truth.checkpoint, verify=True)
    limit = memory or last.limit
    _check_fit(host, job, description, limit)
    _clear_away(job, last)
    for note in put_back(description, images, ran_on=not truth.certain):
        say(f"{job.name}: {note}")
    faults.reached("rolled-back")
    job = replace(job, state=truth.state)
    session = Session(host, job, streams_for(description.streams), say, lock)
    lost = _work_lost(host, job, last, truth, description)
    return session.keep(session.come_back(truth.checkpoint, limit, last, lost))


def _clear_away(job: Job, last: Incarnation) -> None:
    """What is left of the incarnations before: nothing of them may still write to its files. Their
    processes are dead, but for one that stood frozen, and can only now receive its SIGKILL."""
    for cgroup in cgroups.left_by(job.id, last.cgroups):
        try:
            kill_and_remove(cgroup)
        except OSError as error:
            raise Transient(
                f"a process of job {job.id} does not end ({error})",
                preserved="its checkpoint is kept",
                remedy=f"see what it waits for, and try again: {cgroup.paths[0]}/cgroup.procs",
            ) from None


def _check_fit(host: Host, job: Job, description: Description, limit: int) -> None:
    reasons = misfits(description.fingerprint, host.engine.fingerprint())
    if reasons:
        raise Usage(
            f"this host cannot carry job {job.id} on: {'; '.join(reasons)}",
            preserved="its checkpoint is kept",
            remedy="resume it where it was saved, or on a host like it",
        )
    if description.own > limit:
        raise Usage(
            f"{format_size(limit)} cannot hold the job: it used {format_size(description.own)}",
            preserved="its checkpoint is kept",
            remedy="give more with --memory",
        )


def _policy_for(policy: LimitPolicy, limit: int, memory: int | None) -> LimitPolicy:
    """The job's policy from here on: a --memory above its cap was meant to lift the cap."""
    first = memory or limit
    return replace(policy, memory=first, max_memory=max(policy.max_memory, first))


def _work_lost(
    host: Host, job: Job, last: Incarnation, truth: Truth, description: Description
) -> float:
    """Seconds that the job ran after the checkpoint, and has to do again."""
    if truth.certain:
        return 0.0
    record = records.read_exit(host.state.run(job.id), last.number)
    ended = record.at if record else job.ended
    return max(0.0, (ended or time.time()) - description.created)
