"""Setting the journal right after a keeper was killed.

Every verb does this first: what the living and the dead left behind (agent/truth.py) goes into
the journal, and what nobody needs any more is removed. It never touches a job that is kept by
another process, nor one that runs.
"""

from __future__ import annotations

import time
from dataclasses import replace

from outgrow.agent.paths import StateDir
from outgrow.agent.truth import Truth, find_truth, newest_incarnation
from outgrow.core import ending
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.journal.reader import JournalReader
from outgrow.journal.writer import JournalWriter
from outgrow.kernel import cgroups
from outgrow.launcher import records
from outgrow.store.posix import PosixStore


def tidy(state: StateDir) -> None:
    """See the module."""
    reader = JournalReader(state.journal)
    unsettled = [job for job in reader.jobs() if job.state is not State.ENDED]
    store = PosixStore(state.store)
    writer: JournalWriter | None = None
    for unsettled_job in unsettled:
        try:
            lock = records.Lock(state.run(unsettled_job.id) / records.KEEPER)
        except (BlockingIOError, FileNotFoundError):
            continue
        try:
            job = reader.find(unsettled_job.id)  # anew, for its keeper may have just ended it
            incarnations = reader.incarnations(job.id)
            journalled = incarnations[-1] if incarnations else None
            last = newest_incarnation(state.run(job.id), journalled)
            truth = find_truth(state, store, job, last, kept=False)
            if job.state is State.ENDED:
                continue
            if truth.state is not job.state or truth.state is State.LOST:
                writer = writer or JournalWriter(state.journal)
                ended_at = truth.ended_at or reader.last_heard(job.id) or time.time()
                _settle(store, writer, job, last, replace(truth, ended_at=ended_at))
        finally:
            lock.close()
    if writer is not None:
        writer.close()
    reader.close()


def _settle(
    store: PosixStore,
    writer: JournalWriter,
    job: Job,
    last: Incarnation | None,
    truth: Truth,
) -> None:
    if truth.state is State.RUNNING:
        return  # it runs on by itself, and its journal stays as its keeper left it
    store.sweep(job.id)
    remove_cgroups(job.id, last)
    if last is not None:
        _end_incarnation(writer, last, truth)
    status = job.exit_status
    if truth.state in (State.ENDED, State.LOST) and status is None:
        status = ending.exit_status(truth.wait_status)
    settled = replace(job, state=truth.state, exit_status=status)
    if truth.state in (State.ENDED, State.LOST) and job.ended is None:
        settled = replace(
            settled,
            ended=truth.ended_at,
            reason=ending.reason(truth.wait_status, 0),
        )
    if truth.state is State.ENDED:
        for checkpoint in store.checkpoints(job.id):
            store.delete(job.id, checkpoint)
    if settled != job:
        writer.job(settled)
        writer.event(job.id, "settled", state=truth.state.value)


def remove_cgroups(job: str, last: Incarnation | None) -> None:
    """Remove what dead incarnations left, as far as that is possible now."""
    for cgroup in cgroups.left_by(job, last.cgroups if last else ()):
        try:
            cgroup.thaw()  # what was killed while it stood frozen can only now go
            cgroup.remove()
        except OSError:
            continue  # gone already, or not yet empty; `resume` waits for that


def _end_incarnation(writer: JournalWriter, last: Incarnation, truth: Truth) -> None:
    if last.ended is not None:
        return
    reason = "released"
    if truth.state is not State.RELEASED:
        status = ending.exit_status(truth.wait_status)
        reason = ending.reason(truth.wait_status, 0) or f"exit {status}"
    writer.incarnation(replace(last, ended=truth.ended_at, end_reason=reason))
