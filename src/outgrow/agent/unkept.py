"""Ending a job that no process keeps."""

from __future__ import annotations

import select
import time
from dataclasses import replace

from outgrow.agent.moves import GRACE
from outgrow.agent.paths import StateDir
from outgrow.agent.tidy import remove_cgroups
from outgrow.agent.truth import keep_alone
from outgrow.core import ending
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.journal.writer import JournalWriter
from outgrow.launcher import records
from outgrow.launcher.handle import take_over
from outgrow.store.posix import PosixStore


def end_unkept(
    state: StateDir,
    store: PosixStore,
    job: Job,
    last: Incarnation | None,
    number: int,
) -> None:
    """End a job that no process keeps: one that runs on by itself gets the signal, then SIGKILL;
    one on disk ends where it is. Blocking. Raises Busy when somebody begins to keep it."""
    run = state.run(job.id)
    lock = keep_alone(run, job.id)
    journal = JournalWriter(state.journal)
    status = 128 + number
    if records.is_held(run / records.LOCK):
        init = take_over(run)
        init.tell(op="signal", signal=number, group=False)
        if not select.select([init.pidfd], [], [], GRACE)[0]:
            init.tell(op="end")
            select.select([init.pidfd], [], [], GRACE)
        init.close()
        record = records.read_exit(run, last.number) if last is not None else None
        if record is not None and record.status is not None:
            status = ending.exit_status(record.status)
    remove_cgroups(job.id, last)
    for checkpoint in store.checkpoints(job.id):
        store.delete(job.id, checkpoint)
    journal.job(
        replace(
            job,
            state=State.ENDED,
            exit_status=status,
            reason="killed as asked",
            ended=time.time(),
        )
    )
    journal.close()
    lock.close()
