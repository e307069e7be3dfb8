"""A job's cgroup on v2, on trees of files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outgrow.core.errors import Unsupported
from outgrow.core.sample import MemoryReading
from outgrow.core.units import MIB
from outgrow.kernel.cgroup_v2 import CgroupV2
from outgrow.kernel.cgroups import find_hierarchies

from .trees import KernelWrites, copy_tree

LIMIT = 256 * MIB
BAND = 32 * MIB


@pytest.fixture
def cgroup(tmp_path: Path, writes: KernelWrites) -> Iterator[CgroupV2]:
    """The job of the tree, its limit set."""
    found = find_hierarchies(copy_tree("v2-host", tmp_path)).cgroup("abcdefgh-1")
    assert isinstance(found, CgroupV2)
    found.set_limit(LIMIT)
    writes.seen.clear()
    yield found
    found._close_events()


def say(cgroup: CgroupV2, file: str, text: str) -> None:
    (cgroup.path / file).write_text(text, encoding="ascii")


def test_it_is_made_below_a_parent_that_may_limit_it(tmp_path: Path, writes: KernelWrites) -> None:
    root = copy_tree("container-v2", tmp_path)
    outgrow = root / "sys/fs/cgroup/outgrow"
    outgrow.mkdir()  # the kernel makes the files with the directory
    (outgrow / "cgroup.subtree_control").write_text("")
    (outgrow / "zyxwvuts-3").mkdir()
    (outgrow / "zyxwvuts-3/memory.swap.max").write_text("max\n")
    fresh = find_hierarchies(root).cgroup("zyxwvuts-3")
    fresh.create(LIMIT)
    assert writes.seen == [
        ("cgroup.subtree_control", "+memory"),
        ("cgroup.subtree_control", "+memory"),
        ("memory.swap.max", "0"),
        ("memory.max", str(LIMIT)),
    ]
    assert fresh.limit == LIMIT


def test_nothing_is_enabled_that_is_enabled_already(tmp_path: Path, writes: KernelWrites) -> None:
    fresh = find_hierarchies(copy_tree("v2-host", tmp_path)).cgroup("zyxwvuts-3")
    fresh.create(LIMIT)  # and a kernel without swap has no memory.swap.max
    assert writes.seen == [("memory.max", str(LIMIT))]


def test_a_parent_with_processes_of_its_own_makes_it_unsupported(
    tmp_path: Path, writes: KernelWrites
) -> None:
    writes.refuse["cgroup.subtree_control", "+memory"] = errno.EBUSY
    fresh = find_hierarchies(copy_tree("container-v2", tmp_path)).cgroup("zyxwvuts-3")
    with pytest.raises(Unsupported, match="busy"):
        fresh.create(LIMIT)


def test_what_it_consists_of(cgroup: CgroupV2) -> None:
    (path,) = cgroup.paths
    assert path.endswith("/sys/fs/cgroup/outgrow/abcdefgh-1")
    assert cgroup.join_files == (f"{path}/cgroup.procs",)
    assert cgroup.freezer_path == path


def test_a_limit_that_the_kernel_refuses_is_not_taken_for_set(
    cgroup: CgroupV2, writes: KernelWrites
) -> None:
    writes.refuse["memory.max", "1048576"] = errno.EBUSY
    with pytest.raises(OSError, match="busy"):
        cgroup.set_limit(MIB)
    assert cgroup.limit == LIMIT


def test_the_reading_tells_cache_from_growth(cgroup: CgroupV2) -> None:
    assert cgroup.reading() == MemoryReading(232 * MIB, 36 * MIB, 4 * MIB)
    assert cgroup.reading().own == 192 * MIB


def test_dirty_pages_beyond_the_cache_are_not_counted_twice(cgroup: CgroupV2) -> None:
    say(cgroup, "memory.stat", "inactive_file 4096\nfile_dirty 8192\n")
    assert cgroup.reading() == MemoryReading(232 * MIB, 0, 4096)


def test_peak_kills_and_processes(cgroup: CgroupV2) -> None:
    assert cgroup.peak() == 240 * MIB
    assert cgroup.oom_kills() == 2
    assert cgroup.processes() == [4101, 4102, 4200, 4201, 4202]


def test_a_kernel_without_memory_peak_gives_the_usage(cgroup: CgroupV2) -> None:
    (cgroup.path / "memory.peak").unlink()
    assert cgroup.peak() == 232 * MIB


def test_arming_sets_the_mark_and_opens_the_events(cgroup: CgroupV2, writes: KernelWrites) -> None:
    assert cgroup.fileno() == -1
    cgroup.arm(BAND)
    assert writes.seen == [("memory.high", str(LIMIT - BAND))]
    assert os.readlink(f"/proc/self/fd/{cgroup.fileno()}").endswith("/memory.events")


@pytest.mark.parametrize(
    ("events", "crossed"),
    [
        pytest.param("low 0\nhigh 8\nmax 0\noom 2\noom_kill 2\n", True, id="once more"),
        pytest.param("low 0\nhigh 900\nmax 0\noom 2\noom_kill 2\n", True, id="many times"),
        pytest.param("low 0\nhigh 7\nmax 0\noom 2\noom_kill 3\n", False, id="another counter"),
        pytest.param("low 0\nhigh 7\nmax 0\noom 2\noom_kill 2\n", False, id="nothing"),
    ],
)
def test_only_more_high_events_are_a_crossing(cgroup: CgroupV2, events: str, crossed: bool) -> None:
    cgroup.arm(BAND)  # what happened before does not count
    say(cgroup, "memory.events", events)
    assert cgroup.acknowledge() is crossed
    assert cgroup.acknowledge() is False


def test_disarming_gives_the_limit_back_and_leaves_no_descriptor(
    cgroup: CgroupV2, writes: KernelWrites
) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        cgroup.arm(BAND)
    cgroup.disarm()
    assert writes.seen[-1] == ("memory.high", "max")
    assert cgroup.fileno() == -1
    assert os.listdir("/proc/self/fd") == before


def test_an_engine_at_work_has_room_and_gives_no_notice(
    cgroup: CgroupV2, writes: KernelWrites
) -> None:
    cgroup.arm(BAND)
    writes.seen.clear()
    cgroup.hold()
    assert writes.seen == [("memory.high", "max"), ("memory.max", str(LIMIT + 16 * MIB))]
    assert cgroup.fileno() == -1
    assert cgroup.limit == LIMIT


def test_a_job_that_comes_back_is_slowed_from_its_first_instant(
    cgroup: CgroupV2, writes: KernelWrites
) -> None:
    cgroup.brace(BAND, 5 * MIB)
    assert ("memory.max", str(LIMIT + 21 * MIB)) in writes.seen
    assert writes.seen[-1] == ("memory.high", str(LIMIT - BAND + 5 * MIB))
    assert cgroup.fileno() == -1
    assert cgroup.is_starved() is False


@pytest.mark.parametrize("end", ["arm", "disarm"])
def test_what_ends_the_holding_enforces_the_limit_again(
    cgroup: CgroupV2, writes: KernelWrites, end: str
) -> None:
    cgroup.hold()
    writes.seen.clear()
    if end == "arm":
        cgroup.arm(BAND)
    else:
        cgroup.disarm()
    assert writes.seen[0] == ("memory.max", str(LIMIT))
    assert cgroup.limit == LIMIT


@pytest.mark.parametrize("usage", [LIMIT, LIMIT + 4 * MIB])
def test_a_job_that_used_the_room_keeps_it_and_is_not_killed_for_it(
    cgroup: CgroupV2, writes: KernelWrites, usage: int
) -> None:
    cgroup.hold()
    say(cgroup, "memory.current", f"{usage}\n")
    writes.seen.clear()
    cgroup.arm(BAND)
    assert cgroup.limit == LIMIT + 16 * MIB
    assert ("memory.max", str(LIMIT)) not in writes.seen
    assert writes.seen[-1] == ("memory.high", str(LIMIT + 16 * MIB - BAND))


def test_frozen_is_what_the_events_say(cgroup: CgroupV2, writes: KernelWrites) -> None:
    writes.after["cgroup.freeze", "1"] = lambda: say(
        cgroup, "cgroup.events", "populated 1\nfrozen 1\n"
    )
    assert cgroup.is_frozen() is False
    assert cgroup.freeze(timeout=1) is True
    assert cgroup.is_frozen() is True
    cgroup.thaw()
    assert cgroup.is_frozen() is False


def test_a_task_that_does_not_stand_leaves_the_freezing_under_way(cgroup: CgroupV2) -> None:
    assert cgroup.freeze(timeout=0.02) is False
    assert cgroup.is_frozen() is True


def test_dropping_cache_asks_for_what_is_too_much(cgroup: CgroupV2, writes: KernelWrites) -> None:
    cgroup.drop_cache(192 * MIB)
    assert writes.seen == [("memory.reclaim", str(40 * MIB))]


def test_no_cache_is_dropped_where_nothing_is_too_much(
    cgroup: CgroupV2, writes: KernelWrites
) -> None:
    cgroup.drop_cache(232 * MIB)
    assert writes.seen == []


def test_less_than_was_asked_for_may_be_dropped(cgroup: CgroupV2, writes: KernelWrites) -> None:
    writes.refuse["memory.reclaim", str(40 * MIB)] = errno.EAGAIN
    cgroup.drop_cache(192 * MIB)
    assert (cgroup.path / "memory.max").read_text() == str(LIMIT)


def test_a_kernel_without_memory_reclaim_is_left_to_itself(
    cgroup: CgroupV2, writes: KernelWrites
) -> None:
    (cgroup.path / "memory.reclaim").unlink()
    cgroup.drop_cache(192 * MIB)
    assert writes.seen == []


def test_undo_gives_the_job_back_to_the_kernel(cgroup: CgroupV2, writes: KernelWrites) -> None:
    cgroup.arm(BAND)
    writes(cgroup.path / "cgroup.freeze", "1")
    cgroup.set_limit(384 * MIB)
    for path, text in cgroup.undo().writes:
        writes(path, text)
    assert (cgroup.path / "memory.high").read_text() == "max"
    # What it may use by now with an engine inside it: below that, v2 would kill.
    assert (cgroup.path / "memory.max").read_text() == str((384 + 16) * MIB)
    assert (cgroup.path / "cgroup.freeze").read_text() == "0"
    # It thaws last: a task that runs again meets the limit and the kernel's rule.
    assert [Path(path).name for path, _ in cgroup.undo().writes][-1] == "cgroup.freeze"


def test_removing_takes_the_children_first_and_is_fine_when_it_is_gone(tmp_path: Path) -> None:
    fresh = CgroupV2(tmp_path / "job")
    (tmp_path / "job/child/deeper").mkdir(parents=True)
    fresh.remove()
    assert list(tmp_path.iterdir()) == []
    fresh.remove()
