"""A job and its incarnation as they are now, and every change of them in the journal."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from outgrow.core.job import Incarnation, Job, SaveRecord
from outgrow.core.lifecycle import State, transition
from outgrow.ports import Journal


class Chronicle:
    """Values of the core, replaced and written down together."""

    def __init__(self, journal: Journal, job: Job) -> None:
        self._journal = journal
        self.job = job
        self.incarnation: Incarnation | None = None
        journal.job(job)

    def to(self, state: State) -> None:
        """The job is in another state. Raises ImpossibleTransition."""
        if state is not self.job.state:
            self.set_job(state=transition(self.job.state, state))

    def back_to(self, state: State) -> None:
        """The job is in an earlier state again, because a step came to nothing."""
        self.set_job(state=state)

    def set_job(self, **changes: Any) -> None:
        """Some of the job's fields changed."""
        self.job = replace(self.job, **changes)
        self._journal.job(self.job)

    def begin(self, incarnation: Incarnation) -> None:
        """This incarnation lives now."""
        self.incarnation = incarnation
        self._journal.incarnation(incarnation)

    def set_incarnation(self, **changes: Any) -> None:
        """Some of its fields changed."""
        if self.incarnation is not None:
            self.begin(replace(self.incarnation, **changes))

    def end_incarnation(self, reason: str, peak: int) -> None:
        """It lives no more."""
        self.set_incarnation(peak=peak, ended=time.time(), end_reason=reason)

    def begin_save(self, cause: str, freeze_seconds: float) -> SaveRecord:
        """A save of this incarnation begins: the job has stood for `freeze_seconds`."""
        number = self.incarnation.number if self.incarnation else 0
        started = time.time() - freeze_seconds
        return SaveRecord(
            self.job.id, number, cause, started=started, freeze_seconds=freeze_seconds
        )

    def end_save(
        self, record: SaveRecord, outcome: str, detail: str = "", paused: float | None = None
    ) -> SaveRecord:
        """It is over: the job runs, or is kept. `paused`: the seconds that it stood, when it has
        run since."""
        if paused is None:
            paused = time.time() - record.started
        record = replace(record, outcome=outcome, detail=detail, paused_seconds=paused)
        self._journal.save(record)
        return record

    def event(self, kind: str, **data: object) -> None:
        """Something else happened."""
        self._journal.event(self.job.id, kind, **data)
