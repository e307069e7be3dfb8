"""Files that a process has open for writing, by the example of this one."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from outgrow.kernel.open_files import WrittenFile, written_files


def of_ours(folder: Path) -> dict[str, WrittenFile]:
    return {
        Path(file.path).name: file
        for file in written_files([os.getpid()])
        if Path(file.path).parent == folder
    }


@pytest.mark.parametrize(
    ("mode", "grows", "shared"),
    [
        pytest.param("wb", True, False, id="written from its beginning to its end"),
        pytest.param("ab", True, True, id="appended to"),
        pytest.param("a+b", True, False, id="appended to, and read"),
        pytest.param("w+b", False, False, id="read and written anywhere"),
        pytest.param("r+b", False, False, id="rewritten"),
    ],
)
def test_whether_a_file_only_grows(tmp_path: Path, mode: str, grows: bool, shared: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with path.open(mode, buffering=0) as file:
        file.write(b"now")
        found = of_ours(tmp_path)["file"]
    assert (found.grows, found.shared, found.mapped) == (grows, shared, False)
    assert found.status.st_size == path.stat().st_size


def test_one_that_wrote_and_went_back_rewrites(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"0123456789")
        file.seek(4)
        assert not of_ours(tmp_path)["file"].grows


def test_one_way_of_many_is_enough_to_rewrite_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("ab"), path.open("r+b"), path.open("ab"):
        assert not of_ours(tmp_path)["file"].grows


def test_what_is_mapped_counts_without_a_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "an array of numbers"
    path.write_bytes(bytes(8192))
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 8192)
    found = of_ours(tmp_path)[path.name]
    assert found.mapped
    assert not found.grows
    assert found.opened.read_bytes() == bytes(8192)
    memory.close()


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    names = ["a\rb", "a\x0bb", "a\x85b", "a\u2028b", "a b", "a\nb"]
    files = [(tmp_path / name).open("w+b") for name in names]
    memories = []
    for file in files:
        file.truncate(4096)
        memories.append(mmap.mmap(file.fileno(), 4096))
    assert sorted(of_ours(tmp_path)) == sorted(names)
    assert all(file.mapped for file in of_ours(tmp_path).values())
    for memory, file in zip(memories, files, strict=True):
        memory.close()
        file.close()


def test_what_is_only_read_or_has_no_name_is_left_out(tmp_path: Path) -> None:
    for name in ("read", "private", "gone"):
        (tmp_path / name).write_bytes(bytes(4096))
    with (tmp_path / "read").open("rb"), (tmp_path / "gone").open("wb") as gone:
        with (tmp_path / "private").open("rb") as file:
            memory = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_COPY)
        (tmp_path / "gone").unlink()
        assert gone.fileno() >= 0
        assert of_ours(tmp_path) == {}
        memory.close()


def test_a_process_that_is_gone_has_none() -> None:
    assert written_files([2**22 + 1]) == []
