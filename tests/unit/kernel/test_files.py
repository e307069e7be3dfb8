"""Reading and writing the kernel's small files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outgrow.kernel.files import Files, key_values, processes_below, read, write

from .trees import TREES


def test_read_strips_and_never_fails_on_bytes(tmp_path: Path) -> None:
    file = tmp_path / "comm"
    file.write_bytes(b"caf\xe9 \xff\n")
    assert read(file) == "caf\ufffd \ufffd"


def test_a_write_is_one_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    really = os.write

    def noted(descriptor: int, data: bytes) -> int:
        seen.append(data)
        return really(descriptor, data)

    file = tmp_path / "cgroup.event_control"
    file.touch()
    monkeypatch.setattr(os, "write", noted)
    write(file, "12 34 234881024")
    assert seen == [b"12 34 234881024"]
    assert file.read_bytes() == b"12 34 234881024"


def test_a_write_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "memory.limit_in_bytes", "1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("high 7\nmax 0\n", {"high": 7, "max": 0}),
        ("anon 1\nodd\nname text\nneg -3", {"anon": 1, "neg": -3}),
        ("some avg10=0.00 total=5\nfull avg10=0.00", {}),
        ("big 9223372036854771712", {"big": 9223372036854771712}),
    ],
)
def test_key_values(text: str, values: dict[str, int]) -> None:
    assert key_values(text) == values


def test_processes_of_children_count_too() -> None:
    job = TREES / "v2-host/sys/fs/cgroup/outgrow/abcdefgh-1"
    assert processes_below(job) == [4101, 4102, 4200, 4201, 4202]
    assert processes_below(job / "made-by-the-job/deeper") == [4201, 4202]
    assert processes_below(job / "gone") == []


def test_a_child_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text("1\n")
    (tmp_path / "threaded/cgroup.procs").mkdir(parents=True)  # EOPNOTSUPP in a threaded cgroup
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole/cgroup.procs").write_text("2\n")
    assert sorted(processes_below(tmp_path)) == [1, 2]


def test_a_file_at_hand_is_read_and_written_through_what_was_opened(tmp_path: Path) -> None:
    there, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    there.write_text("THAWED\n")
    files = Files()
    files.keep_open(there)
    files.keep_open(there)
    there.rename(elsewhere)
    assert files.read(there) == "THAWED"
    files.write(there, "FROZEN")
    assert elsewhere.read_text() == "FROZEN\n"
    files.close()
    with pytest.raises(FileNotFoundError):
        files.read(there)
    with pytest.raises(FileNotFoundError):
        files.write(there, "THAWED")
