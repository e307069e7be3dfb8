"""Journal: what is told to it can be read again, newest last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.sample import Sample
from outgrow.core.units import GIB
from outgrow.journal.reader import JournalReader
from outgrow.journal.writer import JournalWriter
from outgrow.ports import Journal

from .fakes import ListJournal

SOON = 10.0
JOB, OTHER = "abcdefgh", "bcdefghj"


def a_job(number: str = JOB, **changes: Any) -> Job:
    job = Job(number, "grower", 0, ("true",), "/", LimitPolicy(GIB, GIB), 1.0)
    return replace(job, **changes)


class Told:
    """A journal, and what can be read from it."""

    journal: Journal

    def jobs(self) -> list[Job]:
        raise NotImplementedError

    def incarnations(self, job: str) -> list[Incarnation]:
        raise NotImplementedError

    def checkpoints(self, job: str) -> list[Checkpoint]:
        raise NotImplementedError

    def saves(self, job: str) -> list[SaveRecord]:
        raise NotImplementedError

    def events(self, job: str) -> list[tuple[str, dict[str, Any]]]:
        raise NotImplementedError

    def samples(self, job: str) -> list[Sample]:
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing open."""


class ToldList(Told):
    def __init__(self, _: Path) -> None:
        self.list = ListJournal()
        self.journal = self.list

    def jobs(self) -> list[Job]:
        return sorted(self.list.jobs.values(), key=lambda job: job.created)

    def incarnations(self, job: str) -> list[Incarnation]:
        return self._of(job, self.list.incarnations)

    def checkpoints(self, job: str) -> list[Checkpoint]:
        return self._of(job, self.list.checkpoints)

    def saves(self, job: str) -> list[SaveRecord]:
        return self._of(job, self.list.saves)

    def events(self, job: str) -> list[tuple[str, dict[str, Any]]]:
        return [(kind, data) for owner, kind, data in self.list.events if owner == job]

    def samples(self, job: str) -> list[Sample]:
        return [sample for owner, _, sample in self.list.all_samples if owner == job]

    def _of(self, job: str, kept: dict[tuple[str, Any], Any]) -> list[Any]:
        return [value for (owner, _), value in sorted(kept.items()) if owner == job]


class ToldSqlite(Told):
    def __init__(self, folder: Path) -> None:
        self.journal = self.writer = JournalWriter(folder / "journal")
        self.reader = JournalReader(folder / "journal")

    def jobs(self) -> list[Job]:
        assert self.journal.settle(SOON)
        return self.reader.jobs()

    def incarnations(self, job: str) -> list[Incarnation]:
        assert self.journal.settle(SOON)
        return self.reader.incarnations(job)

    def checkpoints(self, job: str) -> list[Checkpoint]:
        assert self.journal.settle(SOON)
        return self.reader.checkpoints(job)

    def saves(self, job: str) -> list[SaveRecord]:
        assert self.journal.settle(SOON)
        return self.reader.saves(job)

    def events(self, job: str) -> list[tuple[str, dict[str, Any]]]:
        assert self.journal.settle(SOON)
        return [(event.kind, event.data) for event in self.reader.events(job)]

    def samples(self, job: str) -> list[Sample]:
        assert self.journal.settle(SOON)
        return self.reader.samples(job)

    def close(self) -> None:
        self.writer.close()
        self.reader.close()


@pytest.fixture(params=[ToldList, ToldSqlite], ids=["list", "sqlite"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Told]:
    """Each journal in turn; it knows two jobs."""
    made: Told = request.param(tmp_path)
    made.journal.job(a_job())
    made.journal.job(a_job(OTHER, created=2.0))
    yield made
    made.close()


def test_a_job_is_as_it_was_told_last(told: Told) -> None:
    for state in (State.RUNNING, State.FROZEN, State.ENDED):
        told.journal.job(a_job(state=state))
    ended = a_job(state=State.ENDED, exit_status=7, reason="why", work_lost_seconds=1.5, ended=9.0)
    told.journal.job(ended)
    assert told.jobs() == [ended, a_job(OTHER, created=2.0)]


def test_an_incarnation_is_as_it_was_told_last(told: Told) -> None:
    first = Incarnation(JOB, 1, GIB, 1.0, first_limit=GIB, cgroups=("/m/a", "/f/a"))
    second = Incarnation(JOB, 2, 2 * GIB, 5.0, end_reason="released")
    tenth = Incarnation(JOB, 10, 2 * GIB, 7.0)
    for incarnation in (tenth, second, first):
        told.journal.incarnation(incarnation)
    told.journal.incarnation(replace(first, peak=7, ended=4.0, end_reason="released"))
    told.journal.incarnation(Incarnation(OTHER, 1, GIB, 1.0))
    assert told.incarnations(JOB) == [
        replace(first, peak=7, ended=4.0, end_reason="released"),
        second,
        tenth,
    ]


def test_a_checkpoint_is_as_it_was_told_last(told: Told) -> None:
    checkpoints = [Checkpoint(JOB, number, 1, 100 * number, 1.0) for number in (1, 2, 10)]
    for checkpoint in reversed(checkpoints):
        told.journal.checkpoint(checkpoint)
    told.journal.checkpoint(replace(checkpoints[0], deleted=3.0))
    assert told.checkpoints(JOB) == [replace(checkpoints[0], deleted=3.0), *checkpoints[1:]]
    assert told.checkpoints(OTHER) == []


def test_a_save_is_as_it_was_told_last(told: Told) -> None:
    begun = SaveRecord(JOB, 1, "limit", started=2.0)
    told.journal.save(begun)
    told.journal.save(SaveRecord(JOB, 1, "save", started=1.0, outcome="saved"))
    told.journal.save(replace(begun, outcome="moved", paused_seconds=0.5, checkpoint=1, size=3))
    assert [(save.cause, save.outcome) for save in told.saves(JOB)] == [
        ("save", "saved"),
        ("limit", "moved"),
    ]
    assert told.saves(JOB)[1] == replace(
        begun, outcome="moved", paused_seconds=0.5, checkpoint=1, size=3
    )


def test_events_are_in_the_order_in_which_they_were_told(told: Told) -> None:
    for number in range(300):
        told.journal.event((JOB, OTHER)[number % 2], f"kind-{number}", number=number)
    for job, parity in ((JOB, 0), (OTHER, 1)):
        numbers = range(parity, 300, 2)
        assert told.events(job) == [(f"kind-{n}", {"number": n}) for n in numbers]


def test_two_equal_events_are_two(told: Told) -> None:
    for _ in range(2):
        told.journal.event(JOB, "step", name="frozen")
    assert told.events(JOB) == [("step", {"name": "frozen"})] * 2


def test_samples_are_in_order(told: Told) -> None:
    samples: Sequence[Sample] = [Sample(float(at), 10 * at, GIB) for at in range(100)]
    told.journal.samples(JOB, 1, samples[:60])
    told.journal.samples(JOB, 2, samples[60:])
    told.journal.samples(JOB, 2, [])
    assert told.samples(JOB) == samples
    assert told.samples(OTHER) == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
kinds = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
keys = st.text(min_size=1, max_size=8).filter(lambda key: key not in ("self", "job", "kind"))


@given(kind=kinds, data=st.dictionaries(keys, values, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_event_comes_back(told: Told, kind: str, data: dict[str, Any]) -> None:
    told.journal.event(JOB, kind, **data)
    assert told.events(JOB)[-1] == (kind, data)


def test_what_belongs_to_no_job_is_dropped_and_nobody_is_troubled(told: Told) -> None:
    told.journal.event("cdefghjk", "event")
    told.journal.incarnation(Incarnation("cdefghjk", 1, GIB, 1.0))
    told.journal.checkpoint(Checkpoint("cdefghjk", 1, 1, 1, 1.0))
    told.journal.save(SaveRecord("cdefghjk", 1, "limit", 1.0))
    told.journal.samples("cdefghjk", 1, [Sample(1.0, 1, 1)])
    told.journal.event(JOB, "after")
    assert told.events(JOB) == [("after", {})]
    assert told.events("cdefghjk") == []
    assert told.incarnations("cdefghjk") == []
    assert told.samples("cdefghjk") == []
    assert len(told.jobs()) == 2


def test_settling_says_that_all_is_there(told: Told) -> None:
    assert told.journal.settle(SOON) is True
    assert told.journal.settle(SOON) is True
