"""What PID 1 leaves on disk, and the locks that say who lives."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.launcher import records
from outgrow.launcher.records import BeganRecord, ExitRecord, Lock, is_held

HOLDER = """
import os, sys
from pathlib import Path
from outgrow.launcher.records import Lock
lock = Lock(Path(sys.argv[1]))
if sys.argv[2] == "handed on":
    if os.fork():
        os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""

exits = st.builds(
    ExitRecord,
    at=st.floats(0, 1e10),
    status=st.none() | st.integers(0, 0xFFFF),
    released=st.none() | st.integers(1, 10**6),
    failed=st.none() | st.text(),
)


@given(exits)
def test_an_exit_record_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, record: ExitRecord
) -> None:
    run = tmp_path_factory.getbasetemp() / "records"
    run.mkdir(exist_ok=True)
    records.write_exit(run, 1, record)
    assert records.read_exit(run, 1) == record


def test_records_are_one_per_incarnation(tmp_path: Path) -> None:
    records.write_began(tmp_path, 1, BeganRecord(5.0, 1 << 30, ["/m/a"]))
    records.write_exit(tmp_path, 1, ExitRecord(10.0, status=0))
    records.write_exit(tmp_path, 2, ExitRecord(20.0, released=4))
    assert records.read_exit(tmp_path, 1) == ExitRecord(10.0, status=0)
    assert records.read_exit(tmp_path, 2) == ExitRecord(20.0, released=4)
    assert records.read_exit(tmp_path, 3) is None
    assert records.read_began(tmp_path, 1) == BeganRecord(5.0, 1 << 30, ["/m/a"])
    assert records.read_began(tmp_path, 2) is None


def test_a_newer_record_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    for at in (1.0, 2.0):
        records.write_exit(tmp_path, 1, ExitRecord(at, status=0))
    assert records.read_exit(tmp_path, 1) == ExitRecord(2.0, status=0)


def test_forgetting_takes_all_of_one_incarnation_and_nothing_else(tmp_path: Path) -> None:
    for number in (1, 11):
        records.write_began(tmp_path, number, BeganRecord(5.0, 1, []))
        records.write_exit(tmp_path, number, ExitRecord(10.0, failed="exec"))
    records.forget(tmp_path, 1)
    assert sorted(os.listdir(tmp_path)) == ["began-11.json", "exit-11.json"]
    records.forget(tmp_path, 1)


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        pytest.param([], 0, id="none"),
        pytest.param(["began-2.json", "began-10.json", "began-9.json"], 10, id="by number"),
        pytest.param(["exit-7.json", "began-x.json", ".began-8.json.new"], 0, id="other files"),
    ],
)
def test_the_newest_that_may_have_run(tmp_path: Path, names: list[str], newest: int) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    assert records.newest_begun(tmp_path) == newest


def test_a_damaged_note_that_it_began_is_none(tmp_path: Path) -> None:
    (tmp_path / "began-1.json").write_bytes(b'{"at": 1.0}')
    assert records.read_began(tmp_path, 1) is None


DAMAGED = [
    pytest.param(b"", id="empty"),
    pytest.param(b'{"at": 1.0, "sta', id="cut off"),
    pytest.param(b"\x00" * 40, id="zeros, as after a power cut"),
    pytest.param(b"\xff\xfe", id="no text"),
    pytest.param(b"null", id="nothing"),
    pytest.param(b"[1.0, 0]", id="a list"),
    pytest.param(b'"at"', id="a word"),
    pytest.param(b"{}", id="no time"),
]


@pytest.mark.parametrize(
    "data", [*DAMAGED, pytest.param(b'{"at": 1.0, "when": 2.0}', id="an unknown field")]
)
def test_a_damaged_exit_record_is_none(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "exit-1.json").write_bytes(data)
    assert records.read_exit(tmp_path, 1) is None


@pytest.mark.parametrize("data", [b'{"at": "then", "status": 0}', b'{"at": 1.0, "status": "0"}'])
def test_an_exit_record_of_other_types_is_none(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "exit-1.json").write_bytes(data)
    assert records.read_exit(tmp_path, 1) is None


def test_a_record_that_is_a_directory_is_none(tmp_path: Path) -> None:
    (tmp_path / "exit-1.json").mkdir()
    assert records.read_exit(tmp_path, 1) is None


def noted_writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to the disk from here on, in order."""
    seen: list[str] = []
    really_sync, really_rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        seen.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        really_sync(descriptor)

    def rename(path: Path, to: Path) -> Path:
        seen.append(f"rename {to.name}")
        return really_rename(path, to)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    return seen


def test_an_exit_record_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    seen = noted_writes(monkeypatch)
    records.write_exit(run, 1, ExitRecord(1.0, status=0))
    assert seen == ["sync .exit-1.json.new", "rename exit-1.json", "sync run"]


def test_a_record_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    records.write_exit(tmp_path, 1, ExitRecord(1.0, status=0))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        records.write_exit(tmp_path, 1, ExitRecord(2.0, status=9))
    assert records.read_exit(tmp_path, 1) == ExitRecord(1.0, status=0)
    with pytest.raises(OSError, match="No space left"):
        records.write_exit(tmp_path, 2, ExitRecord(2.0, status=9))
    assert records.read_exit(tmp_path, 2) is None


def test_nobody_else_can_read_a_record(tmp_path: Path) -> None:
    records.write_exit(tmp_path, 1, ExitRecord(1.0, status=0))
    assert (tmp_path / "exit-1.json").stat().st_mode & 0o777 == 0o600


@contextmanager
def holder(lock: Path, how: str = "itself") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that holds the lock, and the PID that does."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


def test_a_lock_excludes_another_process_until_that_dies(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as (process, pid):
        assert is_held(path)
        with pytest.raises(BlockingIOError):
            Lock(path)
        os.kill(pid, signal.SIGKILL)
        process.wait()
        assert not is_held(path)
        Lock(path).close()


def test_a_lock_is_handed_on_to_a_child(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, "handed on") as (process, pid):
        process.wait()  # the one that took it is gone
        assert is_held(path)
        gone = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.read()  # ends when the last process of them has
        os.close(gone)
        assert not is_held(path)


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = Lock(path)
    assert is_held(path)
    lock.close()
    assert not is_held(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_refused_lock_leaves_no_descriptor(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        Lock(tmp_path / "lock")
    assert os.listdir("/proc/self/fd") == before
    lock.close()


def test_nobody_holds_the_lock_of_a_job_that_was_never_run(tmp_path: Path) -> None:
    assert is_held(tmp_path / "never" / "lock") is False
    with pytest.raises(FileNotFoundError):
        Lock(tmp_path / "never" / "lock")


def test_looking_at_a_lock_never_keeps_another_from_taking_it(tmp_path: Path) -> None:
    looker = (
        "import sys; from pathlib import Path; from outgrow.launcher.records import is_held\n"
        "print(flush=True)\n"
        "while True: is_held(Path(sys.argv[1]))"
    )
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", looker, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            for _ in range(20000):
                Lock(path).close()
        finally:
            process.kill()
