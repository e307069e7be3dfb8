"""Writing the journal never waits, and loses nothing that can still be written."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outgrow.core.errors import OutgrowError
from outgrow.core.job import Incarnation
from outgrow.core.sample import Sample
from outgrow.journal import writer as writers
from outgrow.journal.reader import JournalReader
from outgrow.journal.writer import JournalWriter

from .values import a_job

SOON = 10.0


class Complaints:
    """What the writer complains of; `first` is set when it begins to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.first = threading.Event()

    def __call__(self, text: str) -> None:
        self.seen.append(text)
        self.first.set()


@pytest.fixture(autouse=True)
def retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_RETRY", 0.01)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Somebody else writes, and takes his time."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def events(path: Path, job: str = "abcdefgh") -> list[str]:
    reader = JournalReader(path)
    try:
        return [event.kind for event in reader.events(job)]
    finally:
        reader.close()


def test_what_is_closed_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = JournalWriter(path)
    writer.job(a_job())
    for number in range(100):
        writer.event("abcdefgh", f"event-{number}")
    writer.close()
    assert events(path) == [f"event-{number}" for number in range(100)]


def test_what_is_settled_survives_the_death_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    script = """
import os, signal, sys
from pathlib import Path
from outgrow.core.job import Job
from outgrow.core.policy import LimitPolicy
from outgrow.journal.writer import JournalWriter
writer = JournalWriter(Path(sys.argv[1]))
policy = LimitPolicy(1 << 30, 1 << 30)
writer.job(Job("abcdefgh", "grower", 0, ("true",), "/", policy, 1.0))
writer.event("abcdefgh", "step", name="frozen")
assert writer.settle(10)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run([sys.executable, "-c", script, str(path)], timeout=30)
    assert ran.returncode == -signal.SIGKILL
    assert events(path) == ["step"]


def test_nobody_waits_for_a_locked_journal_and_it_catches_up(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    complaints = Complaints()
    writer = JournalWriter(path, complaints)
    writer._connection.execute("PRAGMA busy_timeout = 0")
    writer.job(a_job())
    assert writer.settle(SOON)
    with locked(path):
        for number in range(20):
            writer.event("abcdefgh", f"event-{number}")
        assert complaints.first.wait(SOON)
        assert writer.settle(0.05) is False
    assert writer.settle(SOON) is True
    assert len(complaints.seen) == 1
    assert "the job runs on" in complaints.seen[0]
    assert events(path) == [f"event-{number}" for number in range(20)]
    writer.close()


def test_a_full_disk_loses_nothing_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    complaints = Complaints()
    writer = JournalWriter(path, complaints)
    writer.job(a_job())
    assert writer.settle(SOON)
    writer._connection.execute("PRAGMA max_page_count = 1")  # no smaller than it is now
    for number in range(50):
        writer.event("abcdefgh", f"event-{number}", text="x" * 1000)
    assert complaints.first.wait(SOON)
    assert "full" in complaints.seen[0]
    assert writer.settle(0.05) is False
    writer._connection.execute("PRAGMA max_page_count = 100000")
    assert writer.settle(SOON) is True
    assert events(path) == [f"event-{number}" for number in range(50)]
    assert len(complaints.seen) == 1
    writer.close()


def test_it_complains_again_when_it_fails_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    complaints = Complaints()
    writer = JournalWriter(path, complaints)
    writer._connection.execute("PRAGMA busy_timeout = 0")
    writer.job(a_job())
    assert writer.settle(SOON)
    for number in (1, 2):
        complaints.first.clear()
        with locked(path):
            writer.event("abcdefgh", "event")
            assert complaints.first.wait(SOON)
        assert writer.settle(SOON)
        assert len(complaints.seen) == number
    writer.close()


def test_closing_a_journal_that_cannot_be_written_takes_no_longer_than_asked(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    complaints = Complaints()
    writer = JournalWriter(path, complaints)
    writer._connection.execute("PRAGMA busy_timeout = 0")
    with locked(path):
        writer.job(a_job())
        assert complaints.first.wait(SOON)
        writer.close(timeout=0.05)
    writer._thread.join(SOON)
    assert not writer._thread.is_alive()
    reader = JournalReader(path)
    assert reader.find("last") == a_job()
    reader.close()


def test_what_belongs_to_a_forgotten_job_is_dropped_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = JournalWriter(path)
    writer.job(a_job())
    writer.job(a_job("bcdefghj"))
    assert writer.settle(SOON)
    reader = JournalReader(path)
    reader.forget("abcdefgh")
    with locked(path):  # so that all of it is one batch
        writer.event("abcdefgh", "late")
        writer.incarnation(Incarnation("abcdefgh", 1, 1, 1.0))
        writer.samples("abcdefgh", 1, [Sample(1.0, 1, 1)])
        writer.event("bcdefghj", "kept")
    assert writer.settle(SOON)
    assert [event.kind for event in reader.events("bcdefghj")] == ["kept"]
    assert reader.events("abcdefgh") == []
    assert [job.id for job in reader.jobs()] == ["bcdefghj"]
    reader.close()
    writer.close()


def test_forgetting_a_job_forgets_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = JournalWriter(path)
    writer.job(a_job())
    writer.event("abcdefgh", "event")
    writer.incarnation(Incarnation("abcdefgh", 1, 1, 1.0))
    writer.samples("abcdefgh", 1, [Sample(1.0, 1, 1)])
    writer.close()
    reader = JournalReader(path)
    reader.forget("abcdefgh")
    reader.close()
    rows = sqlite3.connect(path)
    for table in ("jobs", "incarnations", "checkpoints", "saves", "events", "samples"):
        assert rows.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608
    rows.close()


def test_two_keepers_write_into_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writers_ = [JournalWriter(path), JournalWriter(path)]
    ids = ("abcdefgh", "bcdefghj")
    for number in range(50):
        for writer, job in zip(writers_, ids, strict=True):
            if number == 0:
                writer.job(a_job(job))
            writer.event(job, f"event-{number}")
    for writer in writers_:
        writer.close()
    for job in ids:
        assert events(path, job) == [f"event-{number}" for number in range(50)]


def test_a_journal_that_cannot_be_opened_is_an_error_and_starts_no_thread(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b"no journal" * 1000)
    before = threading.active_count()
    with pytest.raises(OutgrowError):
        JournalWriter(tmp_path / "journal")
    assert threading.active_count() == before


def test_undecodable_data_of_an_event_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = JournalWriter(path)
    writer.job(a_job())
    text = os.fsdecode(b"caf\xe9 \xff\n") + "数据"
    writer.event("abcdefgh", "said", text=text, size=1 << 62, nothing=None)
    writer.close()
    reader = JournalReader(path)
    (event,) = reader.events("abcdefgh")
    assert event.data == {"text": text, "size": 1 << 62, "nothing": None}
    reader.close()
