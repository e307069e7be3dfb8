"""Jobs as the verbs of other terminals see them: from the journal, set right by what is there."""

from __future__ import annotations

from dataclasses import dataclass

from outgrow.agent.host import state_dir
from outgrow.agent.paths import StateDir
from outgrow.agent.tidy import tidy
from outgrow.agent.truth import Truth, find_truth, newest_incarnation
from outgrow.core.errors import NotFound
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.journal.reader import JournalReader
from outgrow.store.posix import PosixStore


@dataclass(frozen=True)
class View:
    """One job: as journalled, and what is true of it now."""

    job: Job
    last: Incarnation | None
    truth: Truth

    @property
    def state(self) -> str:
        """What to show: `unguarded` says that it runs and nobody keeps it."""
        if self.truth.state is State.RUNNING and not self.truth.kept:
            return "unguarded"
        if self.truth.kept:
            return self.job.state.value
        if self.truth.state is State.RELEASED:
            return State.SAVED.value
        return self.truth.state.value


class Jobs:
    """The jobs of one state directory."""

    def __init__(self, directory: str | None) -> None:
        self.state: StateDir = state_dir(directory)
        if not self.state.is_there():
            raise NotFound(
                f"there are no jobs in {self.state.root}", remedy="start one with `outgrow run`"
            )
        tidy(self.state)
        self.journal = JournalReader(self.state.journal)
        self.store = PosixStore(self.state.store)

    def all(self) -> list[View]:
        """Oldest first."""
        return [self._view(job) for job in self.journal.jobs()]

    def find(self, text: str) -> View:
        """See JournalReader.find."""
        return self._view(self.journal.find(text))

    def _view(self, job: Job) -> View:
        incarnations = self.journal.incarnations(job.id)
        run = self.state.run(job.id)
        last = newest_incarnation(run, incarnations[-1] if incarnations else None)
        truth = find_truth(self.state, self.store, job, last)
        return View(job, last, truth)
