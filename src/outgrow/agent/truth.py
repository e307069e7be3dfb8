"""What a job really is, by what its living and dead left behind.

The journal may lag behind (outgrow was killed, the disk was full). The lock, the exit records and
the store do not: PID 1 and the store wrote them, durably and in order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from outgrow.agent.paths import StateDir
from outgrow.core import ending
from outgrow.core.errors import Busy
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.launcher import records
from outgrow.store.posix import PosixStore


@dataclass(frozen=True)
class Truth:
    """`state` of the job; `kept` when a living process of outgrow keeps it; `wait_status` of one
    that ended; `checkpoint` from which it can go on; `certain` when that is the very instant at
    which it stopped."""

    state: State
    kept: bool = False
    wait_status: int | None = None
    checkpoint: int | None = None
    certain: bool = True
    ended_at: float | None = None


def newest_incarnation(run: Path, journalled: Incarnation | None) -> Incarnation | None:
    """The newest incarnation that there was: the journal's, or one that began after what the
    journal knows of."""
    number = records.newest_begun(run)
    if journalled is not None and journalled.number >= number:
        return journalled
    began = records.read_began(run, number)
    if began is None:
        return journalled
    return Incarnation(
        job=run.name,
        number=number,
        limit=began.limit,
        started=began.at,
        first_limit=began.limit,
        cgroups=tuple(began.cgroups),
    )


_PROBES = 10
_PROBE_EVERY = 0.05


def keep_alone(run: Path, job: str) -> records.Lock:
    """The lock of whoever keeps the job; nothing of it changes under its holder. Raises Busy when
    another process keeps it, and not just looks."""
    for _ in range(_PROBES):
        try:
            return records.Lock(run / records.KEEPER)
        except BlockingIOError:
            time.sleep(_PROBE_EVERY)
    raise Busy(f"job {job} is kept by another process", remedy=f"see `outgrow show {job}`")


def find_truth(
    state: StateDir,
    store: PosixStore,
    job: Job,
    last: Incarnation | None,
    *,
    kept: bool | None = None,
) -> Truth:
    """See the module. `last`: the newest incarnation that the journal knows. `kept`: whether
    another process keeps it, where the caller knows (it holds that lock itself)."""
    run = state.run(job.id)
    if kept is None:
        kept = records.is_held(run / records.KEEPER)
    checkpoints = store.checkpoints(job.id)
    newest = checkpoints[-1] if checkpoints else None
    if job.state is State.ENDED:
        return Truth(State.ENDED, kept=kept)
    if kept:
        return Truth(job.state, kept=True, checkpoint=newest)
    if records.is_held(run / records.LOCK):
        return Truth(State.RUNNING, checkpoint=newest)
    if last is None:
        return Truth(State.LOST, checkpoint=newest)
    if newest is not None and not records.has_begun(run, last.number):
        return Truth(State.RELEASED, checkpoint=newest)
    record = records.read_exit(run, last.number)
    if record is not None and record.status is not None:
        goes_back = newest is not None and ending.was_killed(record.status)
        state_now = State.LOST if goes_back else State.ENDED
        return Truth(state_now, False, record.status, newest, not goes_back, record.at)
    if record is not None and (record.released is not None or record.failed is not None):
        state_now = State.RELEASED if newest is not None else State.LOST
        return Truth(state_now, checkpoint=newest, ended_at=record.at)
    # Its processes are gone and PID 1 could not say how: killed from outside, or the power. It may
    # have run after its checkpoint, even when the journal's last word is that it stood.
    return Truth(State.LOST, checkpoint=newest, certain=newest is None)
