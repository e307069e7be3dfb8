"""Finding the job that a user means."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from outgrow.core.errors import NotFound, OutgrowError, Usage
from outgrow.core.lifecycle import State
from outgrow.journal.reader import JournalReader
from outgrow.journal.schema import VERSION, connect
from outgrow.journal.writer import JournalWriter

from .values import a_job

JOBS = [
    a_job("abcdefgh", "grower", 1.0),
    a_job("abcdefgj", "grower", 3.0),
    a_job("abzzzzzz", "two words", 2.0),
    a_job("xyzxyzxy", "abcdefgh", 4.0),
    a_job("mmmmmmmm", "100%_done", 5.0),
    a_job("nnnnnnnn", "mm", 0.5),
    a_job("pppppppp", "Übung '\"\\", 0.6),
]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[JournalReader]:
    writer = JournalWriter(tmp_path / "journal")
    for job in JOBS:
        writer.job(job)
    writer.close()
    reader = JournalReader(tmp_path / "journal")
    yield reader
    reader.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("abcdefgj", "abcdefgj", id="an id"),
        pytest.param("abcdefgh", "abcdefgh", id="an id that is also a name"),
        pytest.param("grower", "abcdefgj", id="of a name the newest"),
        pytest.param("two words", "abzzzzzz", id="a name with a space"),
        pytest.param("100%_done", "mmmmmmmm", id="a name with SQL's wildcards"),
        pytest.param("Übung '\"\\", "pppppppp", id="a name with quotes"),
        pytest.param("last", "mmmmmmmm", id="the newest of all"),
        pytest.param("abz", "abzzzzzz", id="the beginning of one id"),
        pytest.param("x", "xyzxyzxy", id="one letter"),
        pytest.param("abcdefg", None, id="the beginning of two ids"),
        pytest.param("mm", "nnnnnnnn", id="a name before the beginning of an id"),
    ],
)
def test_the_job_that_is_meant(reader: JournalReader, text: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(Usage, match="several jobs begin with 'abcdefg'"):
            reader.find(text)
    else:
        assert reader.find(text).id == found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(" ", id="a space"),
        pytest.param("%", id="any text in SQL"),
        pytest.param("_", id="any letter in SQL"),
        pytest.param("abcdefg_", id="an id with a wildcard"),
        pytest.param("abcdefghh", id="longer than an id"),
        pytest.param("ABZ", id="upper case"),
        pytest.param("growe", id="the beginning of a name"),
        pytest.param("x' OR '1'='1", id="SQL"),
        pytest.param("x\x00", id="a NUL after the beginning of an id"),
        pytest.param("\x00", id="a NUL"),
        pytest.param("x\n", id="a newline"),
        pytest.param("\udcff", id="undecodable"),
        pytest.param("\ud800\udfff", id="two lone surrogates"),
        pytest.param("../../etc/passwd", id="a path"),
        pytest.param("x" * 100_000, id="absurdly long"),
    ],
)
def test_a_job_that_is_not_there_is_not_found(reader: JournalReader, text: str) -> None:
    with pytest.raises(NotFound) as error:
        reader.find(text)
    assert "ps --all" in error.value.remedy


@pytest.mark.parametrize("text", ["last", "a", "x"])
def test_an_empty_journal_has_no_job(tmp_path: Path, text: str) -> None:
    reader = JournalReader(tmp_path / "journal")
    assert reader.jobs() == []
    with pytest.raises(NotFound):
        reader.find(text)
    reader.close()


def test_jobs_come_oldest_first(reader: JournalReader) -> None:
    assert [job.created for job in reader.jobs()] == [0.5, 0.6, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_only_its_owner_can_read_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "state" / "journal"
    connect(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_journal_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.execute("CREATE TABLE jobs (other TEXT)")
    newer.commit()
    newer.close()
    with pytest.raises(OutgrowError, match=f"newer outgrow \\(version {VERSION + 1}\\)") as error:
        JournalReader(path)
    assert "--state-dir" in error.value.remedy
    newer = sqlite3.connect(path)
    assert newer.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)
    assert [row[0] for row in newer.execute("SELECT name FROM sqlite_schema")] == ["jobs"]
    newer.close()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"this is no database" * 100, id="text"),
        pytest.param(b"SQLite format 3\x00" + b"\xff" * 4080, id="a damaged header"),
        pytest.param(b"\x00" * 4096, id="zeros, as after a power cut"),
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(data)
    with pytest.raises(OutgrowError, match="cannot be opened") as error:
        JournalReader(path)
    assert error.value.preserved == "jobs and checkpoints are not touched"
    assert path.read_bytes() == data


def test_somebody_elses_tables_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE saves (game TEXT)")
    other.commit()
    with pytest.raises(OutgrowError, match="already exists"):
        JournalReader(path)
    assert [row[0] for row in other.execute("SELECT name FROM sqlite_schema")] == ["saves"]
    other.close()


def test_a_directory_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with pytest.raises(OutgrowError, match="cannot be opened"):
        JournalReader(tmp_path / "journal")


def test_a_journal_with_a_damaged_page_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    writer = JournalWriter(path)
    for job in JOBS:
        writer.job(job)
    writer.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)  # all pages but the first, which has the schema
    path.write_bytes(data)
    reader = JournalReader(path)
    try:
        with pytest.raises(OutgrowError):
            reader.jobs()
    finally:
        reader.close()


def test_a_journal_is_read_while_another_process_writes(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "journal")
    reader = JournalReader(tmp_path / "journal")
    for state in (State.RUNNING, State.ENDED):
        writer.job(a_job(state=state))
        assert writer.settle(5)
        assert reader.find("last").state is state
    writer.close()
    reader.close()
