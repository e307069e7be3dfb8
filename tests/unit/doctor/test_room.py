"""Swap, and room in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from outgrow.agent.examination.findings import Status
from outgrow.agent.examination.room import examine_store, examine_swap
from outgrow.core.units import GIB, TIB


@pytest.mark.parametrize(
    ("total", "held", "status", "seen"),
    [
        (0, True, Status.OK, "none"),
        (0, False, Status.OK, "none"),
        (8 * GIB, True, Status.OK, "8 GiB, which jobs under guard do not use"),
        (8 * GIB, False, Status.DEGRADED, "8 GiB, and the kernel does not count it per cgroup"),
    ],
)
def test_swap(total: int, held: bool, status: Status, seen: str) -> None:
    finding = examine_swap(total, held)
    assert (finding.status, finding.seen) == (status, seen)


def test_a_store_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    root = tmp_path / "a" / "b"
    assert examine_store(root, memory=0).status is Status.OK
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "journal").write_text("kept")
    assert examine_store(tmp_path, memory=0).status is Status.OK
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_less_room_than_memory_is_less_than_it_might_be(tmp_path: Path) -> None:
    finding = examine_store(tmp_path / "state", memory=1024 * TIB)
    assert finding.status is Status.DEGRADED
    assert "no larger job is saved" in finding.seen
    assert "--state-dir" in finding.remedy


def test_a_store_that_others_can_write_to_is_none(tmp_path: Path) -> None:
    root = tmp_path / "state"
    root.mkdir()
    root.chmod(0o777)
    finding = examine_store(root, memory=0)
    assert finding.status is Status.MISSING
    assert "does not belong to" in finding.seen


@pytest.mark.parametrize("below", [".", "further/down"])
def test_a_file_is_no_store(tmp_path: Path, below: str) -> None:
    (tmp_path / "state").write_text("")
    finding = examine_store(tmp_path / "state" / below, memory=0)
    assert finding.status is Status.MISSING
    assert finding.remedy and finding.without


def test_a_place_that_cannot_be_written_is_none() -> None:
    assert examine_store(Path("/proc/outgrow"), memory=0).status is Status.MISSING
