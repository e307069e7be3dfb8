"""Every change of a job is in the journal as it is made."""

from __future__ import annotations

import pytest

from outgrow.agent.chronicle import Chronicle
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import ImpossibleTransition, State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import GIB
from tests.contract.fakes import ListJournal

JOB = "abcdefgh"


@pytest.fixture
def journal() -> ListJournal:
    return ListJournal()


@pytest.fixture
def chronicle(journal: ListJournal) -> Chronicle:
    return Chronicle(journal, Job(JOB, "grower", 0, ("true",), "/", LimitPolicy(GIB, GIB), 1.0))


def test_a_job_is_known_from_its_first_moment(journal: ListJournal, chronicle: Chronicle) -> None:
    assert journal.jobs[JOB] == chronicle.job
    assert chronicle.job.state is State.STARTING


def test_every_state_is_written_down(journal: ListJournal, chronicle: Chronicle) -> None:
    for state in (State.RUNNING, State.FROZEN, State.SAVING, State.SAVED, State.RELEASED):
        chronicle.to(state)
        assert journal.jobs[JOB].state is chronicle.job.state is state


def test_an_impossible_state_is_refused_and_not_written(
    journal: ListJournal, chronicle: Chronicle
) -> None:
    with pytest.raises(ImpossibleTransition):
        chronicle.to(State.SAVED)
    assert journal.jobs[JOB].state is State.STARTING


def test_a_step_that_came_to_nothing_goes_back(journal: ListJournal, chronicle: Chronicle) -> None:
    for state in (State.RUNNING, State.FROZEN, State.SAVING):
        chronicle.to(state)
    chronicle.back_to(State.FROZEN)
    assert journal.jobs[JOB].state is State.FROZEN


def test_an_incarnation_is_written_as_it_changes(
    journal: ListJournal, chronicle: Chronicle
) -> None:
    chronicle.set_incarnation(limit=1)  # there is none yet
    assert journal.incarnations == {}
    chronicle.begin(Incarnation(JOB, 1, GIB, 1.0))
    chronicle.set_incarnation(limit=2 * GIB)
    chronicle.end_incarnation("released", peak=7)
    written = journal.incarnations[JOB, 1]
    assert (written.limit, written.peak, written.end_reason) == (2 * GIB, 7, "released")
    assert written.ended is not None


def test_a_save_is_written_with_what_it_came_to(journal: ListJournal, chronicle: Chronicle) -> None:
    chronicle.begin(Incarnation(JOB, 3, GIB, 1.0))
    record = chronicle.begin_save("limit", freeze_seconds=0.25)
    assert journal.saves == {}
    assert (record.incarnation, record.freeze_seconds) == (3, 0.25)
    chronicle.end_save(record, "thawed", "the disk was full")
    (written,) = journal.saves.values()
    assert (written.outcome, written.detail) == ("thawed", "the disk was full")
    assert written.paused_seconds >= 0.25
