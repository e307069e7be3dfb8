"""Setting the journal right after a keeper was killed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from outgrow.agent.paths import StateDir
from outgrow.agent.tidy import tidy
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import GIB
from outgrow.journal.reader import JournalReader
from outgrow.journal.writer import JournalWriter
from outgrow.launcher import records
from outgrow.launcher.records import BeganRecord, ExitRecord, Lock
from outgrow.store.posix import PosixStore
from tests.contract.values import save_into

JOB = "abcdefgh"


class Left:
    """A state directory with one job, as its keeper left it."""

    def __init__(self, root: Path, state: State = State.RUNNING) -> None:
        self.state = StateDir(root)
        self.state.make()
        self.run = self.state.run(JOB)
        self.run.mkdir()
        self.store = PosixStore(self.state.store)
        policy = LimitPolicy(GIB, GIB)
        self.write(Job(JOB, "grower", 0, ("true",), "/", policy, 1.0, state=state))
        records.write_began(self.run, 1, BeganRecord(2.0, GIB, []))

    def write(self, job: Job) -> None:
        journal = JournalWriter(self.state.journal)
        journal.job(job)
        journal.incarnation(Incarnation(JOB, 1, GIB, 2.0))
        journal.close()

    def save(self) -> None:
        save_into(self.store, JOB, incarnation=1)

    def read(self) -> tuple[Job, Incarnation]:
        reader = JournalReader(self.state.journal)
        try:
            return reader.find(JOB), reader.incarnations(JOB)[-1]
        finally:
            reader.close()


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path / "state")


def test_a_job_that_ended_without_its_keeper_has_ended(left: Left) -> None:
    left.save()
    left.store.begin(JOB)
    records.write_exit(left.run, 1, ExitRecord(200.0, status=7 << 8))
    tidy(left.state)
    job, incarnation = left.read()
    assert (job.state, job.exit_status, job.ended) == (State.ENDED, 7, 200.0)
    assert (incarnation.ended, incarnation.end_reason) == (200.0, "exit 7")
    assert left.store.checkpoints(JOB) == []
    assert list((left.state.store / JOB).iterdir()) == []


def test_a_job_on_disk_is_released_and_its_checkpoint_kept(left: Left) -> None:
    left.save()
    left.store.begin(JOB)
    records.write_exit(left.run, 1, ExitRecord(200.0, released=1))
    tidy(left.state)
    job, incarnation = left.read()
    assert (job.state, job.exit_status, job.ended) == (State.RELEASED, None, None)
    assert incarnation.end_reason == "released"
    assert [path.name for path in (left.state.store / JOB).iterdir()] == ["1"]


def test_a_job_that_nobody_saw_end_is_lost(left: Left) -> None:
    tidy(left.state)
    job, incarnation = left.read()
    assert (job.state, job.exit_status) == (State.LOST, 137)
    assert job.ended is not None
    assert "nobody saw it end" in job.reason
    assert incarnation.ended is not None


def test_a_job_that_nobody_saw_end_ended_when_it_was_last_heard_of(left: Left) -> None:
    journal = JournalWriter(left.state.journal)
    journal.event(JOB, "step", name="dumping")
    journal.close()
    reader = JournalReader(left.state.journal)
    heard = reader.last_heard(JOB)
    reader.close()
    time.sleep(0.05)
    tidy(left.state)
    assert heard is not None
    assert left.read()[0].ended == heard


def test_a_job_that_is_kept_is_left_alone(left: Left) -> None:
    before = left.read()
    keeper = Lock(left.run / records.KEEPER)
    records.write_exit(left.run, 1, ExitRecord(200.0, status=0))
    tidy(left.state)
    assert left.read() == before
    keeper.close()


@pytest.mark.parametrize("state", [State.RUNNING, State.SAVING, State.SAVED])
def test_a_job_that_runs_on_by_itself_is_left_alone(tmp_path: Path, state: State) -> None:
    left = Left(tmp_path / "state", state)
    before = left.read()
    left.store.begin(JOB)
    alive = Lock(left.run / records.LOCK)
    tidy(left.state)
    assert left.read() == before
    assert (left.state.store / JOB / "1.partial").is_dir()
    alive.close()


def test_tidying_twice_changes_nothing_more(left: Left) -> None:
    tidy(left.state)
    once = left.read()
    tidy(left.state)
    assert left.read() == once


def test_no_lock_is_held_afterwards(left: Left) -> None:
    tidy(left.state)
    assert not records.is_held(left.run / records.KEEPER)


def test_a_job_without_a_run_directory_is_no_obstacle(left: Left) -> None:
    (left.run / "began-1.json").unlink()
    left.run.rmdir()
    tidy(left.state)


def test_what_its_keeper_wrote_last_stands(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper ends its job between our look at the journal and our lock."""
    ended = replace(
        left.read()[0],
        state=State.ENDED,
        exit_status=137,
        reason="the kernel killed 1 of its processes at the limit",
        work_lost_seconds=12.5,
        ended=150.0,
    )
    records.write_exit(left.run, 1, ExitRecord(150.0, status=9))

    class JustThen(Lock):
        def __init__(self, path: Path) -> None:
            left.write(ended)
            super().__init__(path)

    monkeypatch.setattr(records, "Lock", JustThen)
    tidy(left.state)
    assert left.read()[0] == ended
