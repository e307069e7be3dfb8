"""Files are copied with a checkpoint, and made again what they were."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from outgrow.agent.put_back import put_back
from outgrow.agent.written import capture
from outgrow.core.errors import Damaged
from outgrow.core.files import FileState
from outgrow.core.units import MIB
from outgrow.ports import Draft
from tests.contract.values import describe


class Written:
    """A folder with files that this process has open, and the images of a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.folder, self.images = path / "files", path / "images"
        self.folder.mkdir()
        self.images.mkdir()
        self.log = (self.folder / "log").open("ab", buffering=0)
        self.data = (self.folder / "data").open("w+b", buffering=0)
        self.log.write(b"line\n")
        self.data.write(b"0123456789" * 1000)
        self.states: dict[str, FileState] = {}

    def capture(self, most: int = MIB) -> tuple[str, ...]:
        states, not_copied = capture([os.getpid()], os.getuid(), [], self.images, most)
        ours = [state for state in states if Path(state.path).parent == self.folder]
        self.states = {Path(state.path).name: state for state in ours}
        return tuple(why for why in not_copied if str(self.folder) in why)

    def put_back(self, *, ran_on: bool = True) -> list[str]:
        files = tuple(self.states.values())
        description = describe(Draft("abcdefgh", 1, self.images), owner=os.getuid(), files=files)
        return put_back(description, self.images, ran_on=ran_on)

    def close(self) -> None:
        self.log.close()
        self.data.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    files = Written(tmp_path)
    yield files
    files.close()


def test_what_grows_is_not_copied_and_what_is_rewritten_is(written: Written) -> None:
    assert written.capture() == ()
    log, data = written.states["log"], written.states["data"]
    assert (log.grows, log.copy, log.size) == (True, "", 5)
    assert not data.grows
    assert (written.images / data.copy).read_bytes() == b"0123456789" * 1000


def test_what_is_too_large_is_named(written: Written) -> None:
    why = "is larger than --copy-files allows"
    assert written.capture(most=9999) == (f"'{written.folder}/data' {why}",)
    assert written.states["data"].copy == ""


def test_a_copy_that_cannot_be_written_is_named_and_the_job_saved_without_it(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.copy_file_range", full)
    monkeypatch.setattr("fcntl.ioctl", full)
    why = "could not be copied (No space left on device)"
    assert written.capture() == (f"'{written.folder}/data' {why}",)
    assert written.states["data"].copy == ""
    assert list(written.images.iterdir()) == []


def test_what_is_written_at_its_end_may_yet_be_rewritten(written: Written) -> None:
    """As an archive is, whose head is filled in at the end."""
    with (written.folder / "archive").open("wb", buffering=0) as archive:
        archive.write(b"head" + bytes(100))
        assert written.capture() == ()
        assert written.states["archive"].grows
        archive.write(b"more")
        archive.seek(0)
        archive.write(b"HEAD")
    aside = f"{written.folder}/archive.outgrow-tail-1"
    assert written.put_back() == [f"what it wrote later is kept as {aside!r}"]
    assert (written.folder / "archive").read_bytes() == b"head" + bytes(100)
    assert Path(aside).read_bytes() == b"more"
    assert written.capture(most=0) != ()
    assert not any("archive" in why for why in written.capture(most=0))


def test_what_was_appended_is_cut_off_and_kept(written: Written) -> None:
    written.capture()
    before = (written.folder / "log").stat()
    written.log.write(b"later\n")
    aside = f"{written.folder}/log.outgrow-tail-1"
    assert written.put_back() == [f"what it wrote later is kept as {aside!r}"]
    assert Path(aside).read_bytes() == b"later\n"
    after = (written.folder / "log").stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        5,
        before.st_mtime_ns,
    )
    assert written.put_back() == []
    written.log.write(b"again\n")
    assert aside.replace("-1", "-2") in written.put_back()[0]


def test_what_was_rewritten_is_filled_from_its_copy_and_stays_the_same_file(
    written: Written,
) -> None:
    written.capture()
    before = (written.folder / "data").stat()
    written.data.seek(5000)
    written.data.write(b"x" * 100)
    written.data.truncate(6000)
    assert written.put_back() == []
    assert (written.folder / "data").read_bytes() == b"0123456789" * 1000
    after = (written.folder / "data").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_is_gone_is_made_again(written: Written) -> None:
    written.capture()
    (written.folder / "data").chmod(0o640)
    written.states["data"] = replace(written.states["data"], mode=0o640)
    (written.folder / "data").unlink()
    assert written.put_back() == []
    assert (written.folder / "data").read_bytes() == b"0123456789" * 1000
    assert (written.folder / "data").stat().st_mode & 0o777 == 0o640
    assert written.put_back() == [], "another inode now, and what it was"
    assert written.put_back(ran_on=False) == []
    assert [path.name for path in written.folder.iterdir() if "outgrow" in path.name] == []


def test_nothing_is_changed_when_one_of_them_cannot_be_what_it_was(written: Written) -> None:
    written.capture(most=0)
    written.data.write(b"more")
    written.log.write(b"later\n")
    with pytest.raises(Damaged, match=r"data.*there is no copy of it") as caught:
        written.put_back()
    assert "no file was changed" in caught.value.preserved
    assert (written.folder / "log").read_bytes() == b"line\nlater\n"


def test_what_others_changed_is_theirs(written: Written) -> None:
    written.capture()
    written.log.write(b"theirs\n")  # a log of several
    assert written.put_back(ran_on=False) == []
    written.data.write(b"theirs\n")
    with pytest.raises(Damaged, match=r"data.*changed by somebody else"):
        written.put_back(ran_on=False)
    assert (written.folder / "log").read_bytes() == b"line\ntheirs\n"
    assert (written.folder / "data").read_bytes() == b"0123456789" * 1000 + b"theirs\n"


def test_a_file_that_became_another_meanwhile_is_left_alone(written: Written) -> None:
    written.capture()
    written.log.write(b"later\n")
    state = written.states["log"]
    written.states["log"] = replace(state, inode=state.inode + 1)
    with pytest.raises(Damaged, match="another file"):
        written.put_back()
    assert (written.folder / "log").read_bytes() == b"line\nlater\n"


def test_a_database_without_a_journal_has_none_afterwards(written: Written) -> None:
    with (written.folder / "base").open("w+b", buffering=0) as base:
        base.write(b"SQLite format 3\0" + bytes(100))
        written.capture()
    assert written.states["base-journal"].absent
    journal = written.folder / "base-journal"
    journal.write_bytes(b"hot")
    assert f"{journal}.outgrow-aside-1" in written.put_back()[0]
    assert not journal.exists()


def test_what_was_cut_short_is_done_again(written: Written) -> None:
    written.capture()
    written.log.write(b"later\n")
    (written.folder / "data").unlink()
    for name in ("log", "data"):
        (written.folder / f"{name}.outgrow-new").write_bytes(b"half")
    written.put_back()
    assert (written.folder / "data").read_bytes() == b"0123456789" * 1000
    assert (written.folder / "log.outgrow-tail-1").read_bytes() == b"later\n"
    assert not list(written.folder.glob("*.outgrow-new"))


@dataclass
class Knows:
    """A process that knows names of temporary files."""

    folder: Path
    pid: int

    def capture(self) -> list[FileState]:
        images = self.folder / "images"
        states, _ = capture([self.pid], os.getuid(), [], images, MIB)
        return [state for state in states if state.path.startswith(str(self.folder))]


@pytest.fixture
def knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Knows]:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp/sub").mkdir(parents=True)
    (tmp_path / "images").mkdir()
    program = """
import mmap, sys
name = b"%s/tmp/in-memory" % sys.argv[1].encode()
memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE)
memory[:len(name)] = name
print(flush=True)
sys.stdin.read()
"""
    arguments = [str(tmp_path), f"-o{tmp_path}/tmp/sub/in-arguments", f"{tmp_path}/tmp/a-link"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield Knows(tmp_path, process.pid)
    process.communicate()


def test_a_temporary_file_that_the_job_only_knows_by_name_is_there_again(knows: Knows) -> None:
    for name in ("sub/in-arguments", "in-memory", "in-nobodys"):
        (knows.folder / "tmp" / name).write_text(name)
    states = knows.capture()
    assert {Path(state.path).name for state in states} == {"in-arguments", "in-memory"}
    shutil.rmtree(knows.folder / "tmp/sub")
    (knows.folder / "tmp/in-memory").write_text("of now")
    images = knows.folder / "images"
    there = describe(Draft("abcdefgh", 1, images), owner=os.getuid(), files=tuple(states))
    assert put_back(there, images, ran_on=False) == []
    assert (knows.folder / "tmp/sub/in-arguments").read_text() == "sub/in-arguments"
    assert (knows.folder / "tmp/in-memory").read_text() == "of now"


def test_a_link_among_them_leads_nowhere(knows: Knows) -> None:
    (knows.folder / "secret").write_text("secret")
    (knows.folder / "tmp/a-link").symlink_to(knows.folder / "secret")
    assert knows.capture() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file of another user: run it as root")
def test_nor_is_a_file_of_another_user_copied(knows: Knows) -> None:
    (knows.folder / "tmp/in-memory").write_text("secret")
    os.chown(knows.folder / "tmp/in-memory", 65534, 65534)
    assert knows.capture() == []
