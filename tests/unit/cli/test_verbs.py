"""What the verbs say of jobs that other processes left, and what they refuse to do to them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from outgrow.cli.main import cli
from outgrow.core.job import SaveRecord
from outgrow.core.lifecycle import State
from outgrow.core.sample import Sample
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import MIB
from outgrow.journal.reader import JournalReader
from outgrow.journal.writer import JournalWriter
from outgrow.launcher import records
from outgrow.launcher.records import ExitRecord, Lock
from tests.contract.values import save_into

from .conftest import Jobs, Outgrow

ONE_JOB_VERBS = ["show", "save", "resume", "kill", "forget"]


def running(jobs: Jobs, number: str = "abcdefgh") -> Lock:
    """A job that runs and that nobody keeps, as long as the lock is held."""
    jobs.add(number, state=State.RUNNING, exit_status=None, ended=None)
    return Lock(jobs.state.run(number) / records.LOCK)


def kept(jobs: Jobs, number: str = "abcdefgh") -> tuple[Lock, Lock]:
    """A job that runs and is kept."""
    return running(jobs, number), Lock(jobs.state.run(number) / records.KEEPER)


def saved(jobs: Jobs, number: str = "abcdefgh") -> None:
    """A job that is saved and kept on disk."""
    jobs.add(number, state=State.RELEASED, exit_status=None, ended=None)
    save_into(jobs.store, number)
    records.write_exit(jobs.state.run(number), 1, ExitRecord(1060.0, released=1))


@pytest.mark.parametrize("verb", ONE_JOB_VERBS)
@pytest.mark.parametrize("job", ["abc", "nothing", "", "%", "\udcff", "../../etc"])
def test_a_job_that_is_not_there_is_status_10(
    outgrow: Outgrow, jobs: Jobs, verb: str, job: str
) -> None:
    jobs.add("zzzzzzzz")
    ran = outgrow(verb, job)
    assert ran.status == 10
    assert "there is no job" in ran.err
    assert "ps --all" in ran.err


@pytest.mark.parametrize("verb", ONE_JOB_VERBS)
def test_without_a_state_directory_there_are_no_jobs(outgrow: Outgrow, verb: str) -> None:
    ran = outgrow(verb, "last")
    assert ran.status == 10
    assert "outgrow run" in ran.err


@pytest.mark.parametrize("verb", ONE_JOB_VERBS)
def test_the_beginning_of_two_ids_is_status_2(outgrow: Outgrow, jobs: Jobs, verb: str) -> None:
    jobs.add("abcdefgh")
    jobs.add("abcdefgj", name="other")
    ran = outgrow(verb, "abcdefg")
    assert ran.status == 2
    assert "several jobs begin with 'abcdefg'" in ran.err


def test_looking_makes_nothing(outgrow: Outgrow, tmp_path: Path) -> None:
    assert outgrow("ps").status == 0
    assert list(tmp_path.iterdir()) == []


# -- ps


def test_ps_lists_what_has_not_ended(outgrow: Outgrow, jobs: Jobs) -> None:
    jobs.add("zzzzzzzz", name="over")
    lock = running(jobs)
    saved(jobs, "bcdefghj")
    lines = outgrow("ps").out.splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "LIMIT", "INCARNATION", "COMMAND"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["abcdefgh", "grower", "unguarded"],
        ["bcdefghj", "grower", "saved"],
    ]
    assert "256 MiB" in lines[1]
    assert lines[1].endswith("python3 grow.py")
    lock.close()


def test_ps_lists_all_when_asked(outgrow: Outgrow, jobs: Jobs) -> None:
    jobs.add("zzzzzzzz", name="over")
    assert "over" not in outgrow("ps").out
    assert "over" in outgrow("ps", "--all").out
    assert "over" in outgrow("ps", "-a").out


def test_ps_for_programs(outgrow: Outgrow, jobs: Jobs) -> None:
    jobs.add("zzzzzzzz", command=("echo", os.fsdecode(b"caf\xe9")), labels={"team": "a b"})
    data = json.loads(outgrow("ps", "--all", "--json").out)
    assert data["schema"] == 1
    (job,) = data["jobs"]
    assert job["id"] == "zzzzzzzz"
    assert job["state"] == "ended"
    assert job["exit_status"] == 0
    assert job["limit_bytes"] == 256 * MIB
    assert job["incarnations"] == 1
    assert job["created"] == "1970-01-01T00:16:40.000Z"
    assert job["labels"] == {"team": "a b"}
    assert os.fsencode(job["command"][1]) == b"caf\xe9"


def test_ps_of_nothing(outgrow: Outgrow) -> None:
    assert outgrow("ps").out.splitlines() == ["ID  NAME  STATE  LIMIT  INCARNATION  COMMAND"]
    assert json.loads(outgrow("ps", "--json").out) == {"schema": 1, "jobs": []}


def test_a_job_that_ended_without_its_keeper_is_set_right(outgrow: Outgrow, jobs: Jobs) -> None:
    running(jobs).close()
    records.write_exit(jobs.state.run("abcdefgh"), 1, ExitRecord(1060.0, status=7 << 8))
    (job,) = json.loads(outgrow("ps", "--all", "--json").out)["jobs"]
    assert (job["state"], job["exit_status"]) == ("ended", 7)


# -- show


def with_a_story(jobs: Jobs) -> None:
    jobs.add("abcdefgh", name="two words", reason="why it ended", work_lost_seconds=1.5)
    journal = JournalWriter(jobs.state.journal)
    for at in range(60):
        journal.samples("abcdefgh", 1, [Sample(1000.0 + at, at * 4 * MIB, 256 * MIB)])
    journal.save(
        SaveRecord(
            "abcdefgh",
            1,
            "limit",
            1050.0,
            outcome="moved",
            checkpoint=1,
            freeze_seconds=0.0021,
            size=240 * MIB,
            released=238 * MIB,
            detail="a detail",
        )
    )
    journal.close()


def test_show_for_programs(outgrow: Outgrow, jobs: Jobs) -> None:
    with_a_story(jobs)
    data = json.loads(outgrow("show", "--json", "two words").out)
    assert data["schema"] == 1
    assert (data["id"], data["state"], data["exit_status"]) == ("abcdefgh", "ended", 0)
    assert data["work_lost_seconds"] == 1.5
    assert data["max_memory_bytes"] == 2048 * MIB
    assert data["ended"] == "1970-01-01T00:17:40.000Z"
    (incarnation,) = data["incarnations"]
    assert incarnation["limit_bytes"] == 256 * MIB
    assert incarnation["peak_bytes"] == 200 * MIB
    assert incarnation["ended"] == "1970-01-01T00:17:40.000Z"
    (save,) = data["saves"]
    assert (save["outcome"], save["bytes"]) == ("moved", 240 * MIB)
    assert len(data["samples"]) == 60
    assert data["samples"][0] == ["1970-01-01T00:16:40.000Z", 0]


def test_show_for_people(outgrow: Outgrow, jobs: Jobs) -> None:
    with_a_story(jobs)
    out = outgrow("show", "last").out
    assert out.splitlines()[0] == "two words  abcdefgh  ended, status 0 (why it ended)"
    for text in ("python3 grow.py", "256 MiB", "200 MiB", "work lost: 1.5 s", "limit, incarnation"):
        assert text in out
    assert "moved: 240 MiB, frozen in 2.1 ms" in out
    assert "\x1b" not in out


def test_a_job_without_a_limit_has_none(outgrow: Outgrow, jobs: Jobs) -> None:
    job = jobs.add("abcdefgh")
    policy = type(job.policy)(NO_LIMIT, NO_LIMIT)
    journal = JournalWriter(jobs.state.journal)
    journal.job(type(job)(**{**vars(job), "policy": policy}))
    journal.close()
    assert json.loads(outgrow("show", "--json", "last").out)["max_memory_bytes"] is None


def test_a_saved_job_says_how_to_go_on(outgrow: Outgrow, jobs: Jobs) -> None:
    saved(jobs)
    out = outgrow("show", "last").out
    assert "saved on disk; go on with: outgrow resume abcdefgh" in out
    assert json.loads(outgrow("show", "--json", "last").out)["checkpoints"] == [1]


def test_a_job_that_runs_unguarded_says_how_to_take_it_back(outgrow: Outgrow, jobs: Jobs) -> None:
    lock = running(jobs)
    assert "runs without its guard; take it back with" in outgrow("show", "last").out
    lock.close()


def test_text_of_a_job_obeys_nobody(outgrow: Outgrow, jobs: Jobs) -> None:
    jobs.add("abcdefgh", command=("echo", "\x1b[2J"), directory="/tmp/\x1b[2J\udcff")
    assert "\x1b" not in outgrow("show", "last").out
    assert "\x1b" not in outgrow("ps", "--all").out


def test_what_an_engine_said_of_a_job_obeys_nobody_on_a_terminal(
    jobs: Jobs,
) -> None:
    """It names files, and those are the job's to name."""
    jobs.add("abcdefgh", reason="could not dump /tmp/\x1b[2J")
    ran = CliRunner().invoke(cli, ["show", "--state-dir", str(jobs.state.root), "last"], color=True)
    assert ran.exit_code == 0
    assert "\x1b[2J" not in ran.output


# -- what they refuse


@pytest.mark.parametrize(
    ("verb", "status", "says"),
    [
        (["save"], 13, "is ended: it has no process now"),
        (["move", "--memory", "1G"], 13, "is ended: it has no process now"),
        (["kill"], 10, "has ended already"),
    ],
)
def test_a_job_that_has_ended_is_left_in_peace(
    outgrow: Outgrow, jobs: Jobs, verb: list[str], status: int, says: str
) -> None:
    jobs.add("abcdefgh")
    ran = outgrow(*verb, "last")
    assert ran.status == status
    assert says in ran.err


@pytest.mark.parametrize("verb", [["save"], ["move", "--memory", "1G"]])
def test_a_job_on_disk_has_nothing_to_save(outgrow: Outgrow, jobs: Jobs, verb: list[str]) -> None:
    saved(jobs)
    ran = outgrow(*verb, "last")
    assert ran.status == 13
    assert jobs.store.checkpoints("abcdefgh") == [1]


@pytest.mark.parametrize("verb", [["save"], ["move", "--memory", "1G"], ["save", "--stop"]])
def test_a_job_that_nobody_keeps_cannot_be_asked(
    outgrow: Outgrow, jobs: Jobs, verb: list[str]
) -> None:
    lock = running(jobs)
    ran = outgrow(*verb, "last")
    assert ran.status == 75
    assert "nobody keeps the job now" in ran.err
    assert "it was not touched" in ran.err
    lock.close()


@pytest.mark.parametrize("size", ["512", "1GB", "0G", ""])
def test_a_bad_size_moves_nothing(outgrow: Outgrow, jobs: Jobs, size: str) -> None:
    locks = kept(jobs)
    assert outgrow("move", "last", "--memory", size).status == 2
    for lock in locks:
        lock.close()


@pytest.mark.parametrize("name", ["NOSUCH", "0", "-9", ""])
def test_a_bad_signal_kills_nothing(outgrow: Outgrow, jobs: Jobs, name: str) -> None:
    locks = kept(jobs)
    assert outgrow("kill", f"--signal={name}", "last").status == 2
    for lock in locks:
        lock.close()


# -- forget


def test_a_job_that_has_ended_is_forgotten_with_all_of_it(outgrow: Outgrow, jobs: Jobs) -> None:
    jobs.add("abcdefgh")
    jobs.add("bcdefghj", name="other")
    save_into(jobs.store, "abcdefgh")
    ran = outgrow("forget", "abcdefgh")
    assert ran.status == 0
    assert "is forgotten" in ran.out
    reader = JournalReader(jobs.state.journal)
    assert [job.id for job in reader.jobs()] == ["bcdefghj"]
    reader.close()
    assert not jobs.state.run("abcdefgh").exists()
    assert not (jobs.state.store / "abcdefgh").exists()
    assert jobs.state.run("bcdefghj").exists()
    assert outgrow("forget", "abcdefgh").status == 10


def test_a_job_that_runs_is_not_forgotten(outgrow: Outgrow, jobs: Jobs) -> None:
    locks = [running(jobs), *kept(jobs, "bcdefghj")]
    for number in ("abcdefgh", "bcdefghj"):
        ran = outgrow("forget", "--force", number)
        assert ran.status == 11
        assert f"outgrow kill {number}" in ran.err
        assert jobs.state.run(number).is_dir()
    for lock in locks:
        lock.close()


def test_a_saved_job_is_forgotten_only_by_force(outgrow: Outgrow, jobs: Jobs) -> None:
    saved(jobs)
    ran = outgrow("forget", "last")
    assert ran.status == 11
    assert "can still go on" in ran.err
    assert "nothing was removed" in ran.err
    assert jobs.store.checkpoints("abcdefgh") == [1]
    assert outgrow("forget", "--force", "last").status == 0
    assert jobs.store.checkpoints("abcdefgh") == []


# -- a journal that cannot be used


def test_a_journal_that_is_none_is_one_clear_message(outgrow: Outgrow, jobs: Jobs) -> None:
    jobs.state.journal.write_bytes(b"no journal" * 1000)
    ran = outgrow("ps")
    assert ran.status == 1
    assert "cannot be opened" in ran.err
    assert "checkpoints are not touched" in ran.err
