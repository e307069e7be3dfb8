"""A job that goes back to a checkpoint finds its files as they were then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from outgrow.agent.put_back import put_back
from outgrow.core.errors import Damaged
from outgrow.core.files import FileState
from outgrow.engines.criu.find import find_criu
from outgrow.ports import Draft
from tests.contract.values import describe
from tests.host.kit import (
    MOVE,
    ROOT,
    Outgrow,
    kill_the_job,
    python,
    read_line,
    running,
    wait_until,
)

NOBODY = 65534
WRITER = [sys.executable, str(ROOT / "examples" / "writer.py")]


def saves(outgrow: Outgrow, name: str = "j") -> int:
    """How many saves it has behind it."""
    return sum(save["outcome"] == "saved" for save in outgrow.story(name)["saves"])


@contextmanager
def saved_once(outgrow: Outgrow, program: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A job that prints `ready`, is saved, is told to go on, prints `on`, and is killed."""
    run = ("run", "--memory", "64MiB", "--name", "j", *words, "--", *python(program))
    with running(outgrow.start(*run, stdin=subprocess.PIPE)) as process:
        assert process.stdin is not None
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        done = outgrow("save", "j")
        assert done.returncode == 0, done.stderr
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert read_line(process) == "on\n"
        kill_the_job(outgrow)
        assert process.wait(60) == 137
        yield process


def test_a_writer_that_is_saved_at_intervals_and_killed_leaves_no_line_out_and_none_twice(
    outgrow: Outgrow,
) -> None:
    log = outgrow.directory / "out.log"
    words = ("run", "--memory", "200MiB", *MOVE, "--save-every", "300ms", "--name", "j", "--")
    with running(outgrow.start(*words, *WRITER, str(log), "400", "--seconds", "3")) as process:
        outgrow.wait_for("j", "running", "frozen", "saving", "saved")
        wait_until(lambda: saves(outgrow) >= 2)
        written = log.stat().st_size
        wait_until(lambda: log.stat().st_size > written)
        kill_the_job(outgrow)
        assert process.wait(60) == 137
    done = outgrow("resume", "j")
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    assert log.read_text() == "".join(f"line {n} of 600\n" for n in range(1, 601))
    story = outgrow.story("j")
    assert story["work_lost_seconds"] > 0
    for tail in outgrow.directory.glob("out.log.outgrow-tail-*"):
        assert tail.read_text().startswith("line ")


def test_so_does_one_whose_output_is_the_file(outgrow: Outgrow) -> None:
    target = outgrow.directory / "out"
    program = """
import sys
print("ready", file=sys.stderr, flush=True)
for number in range(3):
    print("line", number, flush=True)
    sys.stdin.readline()
    print("on", file=sys.stderr, flush=True)
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with target.open("wb") as stdout:
        process = outgrow.start(*words, stdin=subprocess.PIPE, stdout=stdout)
    with running(process):
        assert process.stdin is not None
        wait_until(lambda: target.read_text() == "line 0\n")
        outgrow.wait_for("j", "running")
        assert outgrow("save", "j").returncode == 0
        process.stdin.write(b"go\n")
        process.stdin.flush()
        wait_until(lambda: target.read_text() == "line 0\nline 1\n")
        kill_the_job(outgrow)
        assert process.wait(60) == 137
    with target.open("ab") as stdout:
        done = outgrow("resume", "j", stdin=subprocess.DEVNULL, stdout=stdout)
    assert done.returncode == 0, done.stderr
    assert target.read_text() == "line 0\nline 1\nline 2\n"


IN_PLACE = """
import sys
with open("data", "w+b") as file:
    file.write(b"a" * 100_000)
    file.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    if file.seek(0) == 0 and file.read(3) == b"aaa":
        file.seek(0)
        file.write(b"bbb")
        file.truncate(70_000)
        file.flush()
        print("on", flush=True)
        sys.stdin.readline()
        print("whole")
    else:
        print("broken")
"""

MAPPED = """
import mmap, sys
with open("data", "w+b") as file:
    file.truncate(100_000)
    memory = mmap.mmap(file.fileno(), 100_000)
memory[:3] = b"aaa"
print("ready", flush=True)
sys.stdin.readline()
print("on" if memory[:3] == b"aaa" else "broken", flush=True)
memory[:3] = b"bbb"
memory.flush()
sys.stdin.readline()
print("whole")
"""

REPLACED = """
import os, sys
file = open("data", "w+b")
file.write(b"a" * 1000)
file.flush()
print("ready", flush=True)
sys.stdin.readline()
with open("new", "wb") as new:
    new.write(b"b")
os.rename("new", "data")
file.seek(0)
print("on" if file.read() == b"a" * 1000 else "broken", flush=True)
sys.stdin.readline()
print("whole")
"""

DELETED = """
import os, sys
file = open("data", "w+b")
file.write(b"a" * 1000)
file.flush()
print("ready", flush=True)
sys.stdin.readline()
os.unlink("data")
file.seek(0)
print("on" if file.read() == b"a" * 1000 else "broken", flush=True)
sys.stdin.readline()
print("whole")
"""

DATABASE = """
import sqlite3, sys
base = sqlite3.connect("data.db", isolation_level=None)
base.execute("PRAGMA journal_mode = {mode}")
base.execute("CREATE TABLE numbers (n INTEGER)")
base.execute("BEGIN")
base.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(1000)])
base.execute("COMMIT")
base.execute("BEGIN")
base.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(1000, 1500)])
print("ready", flush=True)
sys.stdin.readline()
base.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in range(1500, 2000)])
base.execute("COMMIT")
base.execute("BEGIN")
base.execute("UPDATE numbers SET n = n + 1")
base.execute("COMMIT")
base.execute("BEGIN")
base.execute("DELETE FROM numbers WHERE n % 2")
print("on", flush=True)
sys.stdin.readline()
base.execute("COMMIT")
found = base.execute("SELECT count(*), min(n), max(n) FROM numbers").fetchone()
found += base.execute("PRAGMA integrity_check").fetchone()
print("whole" if found == (1000, 2, 2000, "ok") else found)
"""


BETWEEN_TRANSACTIONS = """
import sqlite3, sys
base = sqlite3.connect("data.db", isolation_level=None)
base.execute("PRAGMA cache_size = 2")
base.execute("CREATE TABLE numbers (n INTEGER)")
base.executemany("INSERT INTO numbers VALUES (?)", [(1,)] * 2000)
print("ready", flush=True)
sys.stdin.readline()
base.execute("UPDATE numbers SET n = n + 1")
base.execute("BEGIN")
base.execute("UPDATE numbers SET n = n + 1")
print("on", flush=True)
sys.stdin.readline()
base.execute("COMMIT")
found = base.execute("SELECT count(*), min(n), max(n) FROM numbers").fetchone()
found += base.execute("PRAGMA integrity_check").fetchone()
print("whole" if found == (2000, 3, 3, "ok") else found)
"""
"""Killed in the middle of one, it leaves a journal that is hot."""

BETWEEN_PROGRAMS = """
import os, sys, tempfile
descriptor, name = tempfile.mkstemp()
os.write(descriptor, b"from one program to the next")
os.close(descriptor)
print("ready", flush=True)
sys.stdin.readline()
with open(name, "rb") as file:
    print("on" if file.read() == b"from one program to the next" else "broken", flush=True)
os.unlink(name)
sys.stdin.readline()
print("whole")
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(BETWEEN_PROGRAMS, id="a temporary file, closed"),
        pytest.param(IN_PLACE, id="rewritten in place"),
        pytest.param(MAPPED, id="a mapped array"),
        pytest.param(REPLACED, id="replaced by a rename"),
        pytest.param(DELETED, id="deleted"),
        pytest.param(DATABASE.replace("{mode}", "DELETE"), id="sqlite, rollback journal"),
        pytest.param(DATABASE.replace("{mode}", "WAL"), id="sqlite, write-ahead log"),
        pytest.param(BETWEEN_TRANSACTIONS, id="sqlite, between transactions"),
    ],
)
def test_a_file_that_was_changed_after_the_checkpoint_is_what_it_was(
    outgrow: Outgrow, program: str
) -> None:
    with saved_once(outgrow, program):
        pass
    with running(outgrow.start("resume", "j", stdin=subprocess.PIPE)) as process:
        out, err = process.communicate(b"go\ngo\n", timeout=60)
    assert (out.decode(), process.returncode) == ("on\nwhole\n", 0), err.decode()


def test_a_job_that_did_not_run_since_it_was_saved_finds_its_files_untouched(
    outgrow: Outgrow,
) -> None:
    program = IN_PLACE
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        assert outgrow("save", "j", "--stop").returncode == 0
        assert process.wait(60) == 75
    data = outgrow.directory / "data"
    before = data.stat()
    with running(outgrow.start("resume", "j", stdin=subprocess.PIPE)) as process:
        outgrow.wait_for("j", "running")
        assert (data.stat().st_ino, data.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        out, _ = process.communicate(b"go\ngo\n", timeout=60)
    assert out == b"on\nwhole\n"


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        pytest.param(lambda data: data.rename(f"{data}.away"), "missing", id="missing"),
        pytest.param(lambda data: data.write_bytes(b"theirs"), "somebody else", id="changed"),
    ],
)
def test_a_file_that_somebody_else_took_or_changed_stops_the_resume_with_its_name(
    outgrow: Outgrow, harm: Callable[[Path], object], word: str
) -> None:
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(IN_PLACE))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        assert outgrow("save", "j", "--stop").returncode == 0
        assert process.wait(60) == 75
    data = outgrow.directory / "data"
    whole, times = data.read_bytes(), data.stat()
    harm(data)
    theirs = data.read_bytes() if data.exists() else None
    done = outgrow("resume", "j")
    assert done.returncode == 12
    assert str(data) in done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert (data.read_bytes() if data.exists() else None) == theirs
    away = data.with_name("data.away")
    if away.exists():
        away.rename(data)
    else:
        data.write_bytes(whole)
        os.utime(data, ns=(times.st_mtime_ns, times.st_mtime_ns))
    with running(outgrow.start("resume", "j", stdin=subprocess.PIPE)) as process:
        out, err = process.communicate(b"go\ngo\n", timeout=60)
    assert out == b"on\nwhole\n", err


def test_a_file_too_large_to_be_copied_is_named_when_the_job_would_go_back(
    outgrow: Outgrow,
) -> None:
    with saved_once(outgrow, IN_PLACE, "--copy-files", "50KiB"):
        pass
    done = outgrow("resume", "j")
    assert done.returncode == 12
    assert "there is no copy of it" in done.stderr
    assert (outgrow.directory / "data").stat().st_size == 70_000


def test_nothing_is_put_back_with_more_rights_than_the_owner_has(tmp_path: Path) -> None:
    """The path of her file leads to one of root's by now."""
    with tempfile.TemporaryDirectory() as name:  # one that another user can reach
        folder, copy = Path(name), tmp_path / "written-1"
        os.chown(folder, NOBODY, NOBODY)
        secret = folder / "secret"
        secret.write_bytes(b"c" * 100)
        secret.chmod(0o600)
        copy.write_bytes(b"a" * 100)
        state = FileState(f"{folder}/data", 2, 100, 10**18, 0o640, grows=False, copy=copy.name)
        (folder / "data").symlink_to(secret)
        there = describe(Draft("abcdefgh", 1, tmp_path), owner=NOBODY, files=(state,))
        aside = f"{folder}/data.outgrow-aside-1"
        assert put_back(there, tmp_path, ran_on=True) == [
            f"what it wrote later is kept as {aside!r}"
        ]
        assert secret.read_bytes() == b"c" * 100
        assert os.readlink(aside) == str(secret)
        status = (folder / "data").lstat()
        assert (status.st_uid, status.st_mode, status.st_mtime) == (NOBODY, 0o100640, 10**9)

        (folder / "data").unlink()
        os.chown(folder, 0, 0)
        with pytest.raises(Damaged, match=r"data.*could not be put back \(Permission denied\)"):
            put_back(there, tmp_path, ran_on=True)


def test_a_stream_that_root_opened_for_another_user_stays_as_it_is(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "output"
        output.write_bytes(b"then and later")
        output.chmod(0o600)
        state = FileState(str(output), 2, 4, 10**18, 0o600, grows=True, stream=True)
        state = replace(state, inode=output.stat().st_ino)
        there = describe(Draft("abcdefgh", 1, tmp_path), owner=NOBODY, files=(state,))
        (note,) = put_back(there, tmp_path, ran_on=True)
        assert str(output) in note
        assert "comes again" in note
        assert output.read_bytes() == b"then and later"


def test_a_job_that_could_not_come_back_can_still_do_so(outgrow: Outgrow) -> None:
    """Its file was deleted, and made anew for a resume that failed."""
    with saved_once(outgrow, DELETED):
        pass
    engine = outgrow.directory / "criu"
    engine.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {find_criu()} --version\nexit 1\n')
    engine.chmod(0o755)
    failed = outgrow("resume", "j", env={"OUTGROW_CRIU": str(engine)})
    assert failed.returncode == 75, failed.stderr
    assert (outgrow.directory / "data").read_bytes() == b"a" * 1000
    with running(outgrow.start("resume", "j", stdin=subprocess.PIPE)) as process:
        out, err = process.communicate(b"go\ngo\n", timeout=60)
    assert (out.decode(), process.returncode) == ("on\nwhole\n", 0), err.decode()


@pytest.mark.parametrize("step", ["rolled-back", "resuming", "restoring"])
def test_outgrow_is_killed_while_the_job_goes_back(outgrow: Outgrow, step: str) -> None:
    with saved_once(outgrow, IN_PLACE):
        pass
    with running(
        outgrow.start("resume", "j", stdin=subprocess.PIPE, fault=f"kill@{step}")
    ) as killed:
        assert killed.wait(60) == -signal.SIGKILL
        if outgrow.wait_for("j", "lost", "saved", "unguarded")["state"] == "unguarded":
            wait_until(lambda: outgrow.processes(outgrow.jobs()["j"]["id"]))
            kill_the_job(outgrow)
            outgrow.wait_for("j", "lost")
    with running(outgrow.start("resume", "j", stdin=subprocess.PIPE)) as process:
        out, err = process.communicate(b"go\ngo\n", timeout=60)
    assert (out.decode(), process.returncode) == ("on\nwhole\n", 0), err.decode()
    assert outgrow.story("j")["work_lost_seconds"] > 0


def test_a_job_is_saved_again_and_again_and_its_answer_is_right(outgrow: Outgrow) -> None:
    words = ("run", "--memory", "64MiB", "--save-every", "100ms", "--name", "j", "--")
    program = "import time\nfor _ in range(30): time.sleep(0.1)\nprint('done')"
    began = time.monotonic()
    done = outgrow(*words, *python(program))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert saves(outgrow) >= 3
    assert time.monotonic() - began < 60
    assert outgrow.story("j")["checkpoints"] == []
