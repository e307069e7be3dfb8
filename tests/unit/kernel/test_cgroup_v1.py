"""A job's cgroup on v1, on trees of files."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from outgrow.core.errors import Unsupported
from outgrow.core.sample import MemoryReading
from outgrow.core.units import MIB
from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroups import find_hierarchies

from .trees import KernelWrites, copy_tree

LIMIT = 256 * MIB
BAND = 32 * MIB


@pytest.fixture
def cgroup(tmp_path: Path, writes: KernelWrites) -> Iterator[CgroupV1]:
    """The job of the tree, its limit set."""
    found = find_hierarchies(copy_tree("v1-host", tmp_path)).cgroup("abcdefgh-1")
    assert isinstance(found, CgroupV1)
    found.set_limit(LIMIT)
    writes.seen.clear()
    yield found
    found._close_events()


def say(cgroup: CgroupV1, state: str) -> None:
    (cgroup.freezer / "freezer.state").write_text(f"{state}\n")


def test_it_is_made_with_its_limit_and_without_swap(tmp_path: Path, writes: KernelWrites) -> None:
    root = copy_tree("slurm-v1", tmp_path)
    fresh = find_hierarchies(root).cgroup("zyxwvuts-3")
    fresh.create(LIMIT)
    assert all(Path(path).is_dir() for path in fresh.paths)
    assert writes.seen == [("memory.swappiness", "0"), ("memory.limit_in_bytes", str(LIMIT))]
    assert fresh.limit == LIMIT


def test_a_limit_that_the_kernel_refuses_makes_it_unsupported(
    tmp_path: Path, writes: KernelWrites
) -> None:
    writes.refuse["memory.limit_in_bytes", str(LIMIT)] = errno.EINVAL
    fresh = find_hierarchies(copy_tree("v1-host", tmp_path)).cgroup("zyxwvuts-3")
    with pytest.raises(Unsupported, match="Invalid argument"):
        fresh.create(LIMIT)


def test_what_it_consists_of(cgroup: CgroupV1) -> None:
    memory, freezer = cgroup.paths
    assert memory.endswith(
        "/cgroup/memory/user.slice/user-0.slice/session-3.scope/outgrow/abcdefgh-1"
    )
    assert freezer.endswith("/cgroup/freezer/outgrow/abcdefgh-1")
    assert cgroup.join_files == (f"{memory}/cgroup.procs", f"{freezer}/cgroup.procs")
    assert cgroup.freezer_path == freezer


def test_a_limit_that_does_not_fit_is_not_taken_for_set(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    writes.refuse["memory.limit_in_bytes", "1048576"] = errno.EBUSY
    with pytest.raises(OSError, match="busy"):
        cgroup.set_limit(MIB)
    assert cgroup.limit == LIMIT


def test_the_reading_counts_children_and_tells_cache_from_growth(cgroup: CgroupV1) -> None:
    assert cgroup.reading() == MemoryReading(232 * MIB, 36 * MIB, 4 * MIB)
    assert cgroup.reading().own == 192 * MIB
    assert cgroup.usage() == 232 * MIB


def test_dirty_pages_beyond_the_cache_are_not_counted_twice(cgroup: CgroupV1) -> None:
    # Unwritten pages of shared memory are no file cache; the counters are also read at two moments.
    (cgroup.memory / "memory.stat").write_text("total_inactive_file 4096\ntotal_dirty 8192\n")
    assert cgroup.reading() == MemoryReading(232 * MIB, 0, 4096)


def test_peak_kills_and_processes(cgroup: CgroupV1) -> None:
    assert cgroup.peak() == 240 * MIB
    assert cgroup.oom_kills() == 2
    assert cgroup.processes() == [4101, 4102, 4200, 4201, 4202]


def test_arming_registers_the_threshold_and_then_the_backstop(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    assert cgroup.fileno() == -1
    cgroup.arm(BAND)
    event, watched = writes.seen[0][1].split()[:2]
    assert int(event) == cgroup.fileno()
    assert os.readlink(f"/proc/self/fd/{watched}").endswith("/memory.usage_in_bytes")
    assert writes.seen[0] == ("cgroup.event_control", f"{event} {watched} {LIMIT - BAND}")
    also = writes.seen[1][1].split()
    assert os.readlink(f"/proc/self/fd/{also[1]}").endswith("/memory.oom_control")
    assert writes.seen[2:] == [("memory.oom_control", "1")]


def test_an_event_is_acknowledged_once(cgroup: CgroupV1) -> None:
    cgroup.arm(BAND)
    assert cgroup.acknowledge() is False
    poll = select.epoll()
    poll.register(cgroup.fileno(), cgroup.poll_mask)
    assert poll.poll(0) == []
    os.eventfd_write(cgroup.fileno(), 3)  # as the kernel does
    assert poll.poll(0) == [(cgroup.fileno(), select.EPOLLIN)]
    assert cgroup.acknowledge() is True
    assert cgroup.acknowledge() is False
    assert poll.poll(0) == []


def test_disarming_gives_the_limit_back_and_leaves_no_descriptor(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        cgroup.arm(BAND)
    cgroup.disarm()
    assert writes.seen[-1] == ("memory.oom_control", "0")
    assert cgroup.fileno() == -1
    assert os.listdir("/proc/self/fd") == before
    assert cgroup.usage() == 232 * MIB  # no longer through the descriptor of the guard


def test_an_armed_cgroup_reads_its_usage_afresh_each_time(cgroup: CgroupV1) -> None:
    cgroup.arm(BAND)
    (cgroup.memory / "memory.usage_in_bytes").write_text("12345\n")
    assert cgroup.usage() == 12345


def test_freezing_and_thawing(cgroup: CgroupV1, writes: KernelWrites) -> None:
    assert cgroup.is_frozen() is False
    assert cgroup.freeze(timeout=1) is True
    assert cgroup.is_frozen() is True
    cgroup.thaw()
    assert cgroup.is_frozen() is False
    assert writes.seen == [
        ("freezer.state", "FROZEN"),
        ("memory.limit_in_bytes", str(LIMIT + 16 * MIB)),  # for who is inside a system call
        ("freezer.state", "THAWED"),
    ]


def test_a_task_that_does_not_stand_leaves_the_freezing_under_way(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    writes.after["freezer.state", "FROZEN"] = lambda: say(cgroup, "FREEZING")
    assert cgroup.freeze(timeout=0.02) is False
    assert cgroup.is_frozen() is True
    assert cgroup.limit == LIMIT


def test_a_task_that_waits_at_the_limit_gets_the_room_to_reach_the_freezer(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    (cgroup.memory / "memory.oom_control").write_text("oom_kill_disable 1\nunder_oom 1\n")
    writes.after["freezer.state", "FROZEN"] = lambda: say(cgroup, "FREEZING")
    raised = ("memory.limit_in_bytes", str(LIMIT + 32 * MIB))
    writes.after[raised] = lambda: say(cgroup, "FROZEN")
    assert cgroup.freeze(timeout=5) is True
    assert writes.seen[-1] == raised
    assert cgroup.limit == LIMIT
    cgroup.arm(BAND)
    assert ("memory.limit_in_bytes", str(LIMIT)) in writes.seen


def test_an_engine_at_work_has_room_and_gives_no_notice(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    cgroup.arm(BAND)
    writes.seen.clear()
    cgroup.hold()
    assert writes.seen == [("memory.limit_in_bytes", str(LIMIT + 16 * MIB))]
    assert cgroup.fileno() == -1
    assert cgroup.limit == LIMIT


def test_a_job_that_comes_back_is_held_from_its_first_instant(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    cgroup.brace(BAND, 5 * MIB)
    assert writes.seen == [
        ("memory.limit_in_bytes", str(LIMIT + 21 * MIB)),
        ("memory.oom_control", "1"),
    ]
    assert cgroup.fileno() == -1
    assert cgroup.limit == LIMIT


@pytest.mark.parametrize(
    ("text", "starved"),
    [
        ("oom_kill_disable 1\nunder_oom 1\noom_kill 0\n", True),
        ("oom_kill_disable 1\nunder_oom 0\noom_kill 1\n", False),
        ("", False),
    ],
)
def test_whether_a_task_waits_for_memory(cgroup: CgroupV1, text: str, starved: bool) -> None:
    (cgroup.memory / "memory.oom_control").write_text(text)
    assert cgroup.is_starved() is starved


@pytest.mark.parametrize("end", ["arm", "disarm"])
def test_what_ends_the_holding_enforces_the_limit_again(
    cgroup: CgroupV1, writes: KernelWrites, end: str
) -> None:
    cgroup.hold()
    writes.seen.clear()
    if end == "arm":
        cgroup.arm(BAND)
    else:
        cgroup.disarm()
    assert writes.seen[0] == ("memory.limit_in_bytes", str(LIMIT))
    assert cgroup.limit == LIMIT


def test_a_job_that_used_the_room_keeps_it(cgroup: CgroupV1, writes: KernelWrites) -> None:
    cgroup.hold()
    writes.refuse["memory.limit_in_bytes", str(LIMIT)] = errno.EBUSY
    cgroup.arm(BAND)
    assert cgroup.limit == LIMIT + 16 * MIB
    assert writes.seen[-3][1].endswith(f" {LIMIT + 16 * MIB - BAND}")


def test_holding_takes_nothing_back_that_freezing_gave(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    (cgroup.memory / "memory.oom_control").write_text("oom_kill_disable 1\nunder_oom 1\n")
    writes.after["freezer.state", "FROZEN"] = lambda: say(cgroup, "FREEZING")
    needed = ("memory.limit_in_bytes", str(LIMIT + 32 * MIB))
    writes.after[needed] = lambda: say(cgroup, "FROZEN")
    assert cgroup.freeze(timeout=5) is True
    writes.refuse["memory.limit_in_bytes", str(LIMIT + 16 * MIB)] = errno.EBUSY
    cgroup.hold()


def test_dropping_cache_while_it_is_held_leaves_it_its_room(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    cgroup.hold()
    cgroup.drop_cache(192 * MIB)
    assert writes.seen[-1] == ("memory.limit_in_bytes", str(LIMIT + 16 * MIB))


def test_dropping_cache_lowers_the_limit_and_raises_it_again(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    cgroup.drop_cache(192 * MIB)
    assert writes.seen == [
        ("memory.limit_in_bytes", str(192 * MIB)),
        ("memory.limit_in_bytes", str(LIMIT)),
    ]
    assert cgroup.limit == LIMIT


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EINTR, errno.EINVAL])
def test_the_limit_stands_again_even_when_the_cache_could_not_be_dropped(
    cgroup: CgroupV1, writes: KernelWrites, number: int
) -> None:
    writes.refuse["memory.limit_in_bytes", str(192 * MIB)] = number
    cgroup.drop_cache(192 * MIB)
    assert writes.seen[-1] == ("memory.limit_in_bytes", str(LIMIT))
    assert (cgroup.memory / "memory.limit_in_bytes").read_text() == str(LIMIT)


def test_the_limit_stands_again_even_when_we_are_interrupted(
    cgroup: CgroupV1, writes: KernelWrites
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    writes.after["memory.limit_in_bytes", str(192 * MIB)] = interrupt
    with pytest.raises(KeyboardInterrupt):
        cgroup.drop_cache(192 * MIB)
    assert writes.seen[-1] == ("memory.limit_in_bytes", str(LIMIT))


def test_undo_gives_the_job_back_to_the_kernel(cgroup: CgroupV1, writes: KernelWrites) -> None:
    cgroup.arm(BAND)
    cgroup.freeze(timeout=1)
    cgroup.set_limit(384 * MIB)
    (cgroup.memory / "memory.limit_in_bytes").write_text(str(192 * MIB))  # a drop_cache under way
    for path, text in cgroup.undo().writes:
        writes(path, text)
    assert (cgroup.memory / "memory.oom_control").read_text() == "0"
    assert (cgroup.memory / "memory.limit_in_bytes").read_text() == str(384 * MIB)
    assert (cgroup.freezer / "freezer.state").read_text() == "THAWED"
    # It thaws last: a task that runs again meets the limit and the kernel's rule.
    assert [Path(path).name for path, _ in cgroup.undo().writes][-1] == "freezer.state"


def test_removing_takes_the_children_first_and_is_fine_when_it_is_gone(tmp_path: Path) -> None:
    fresh = CgroupV1(tmp_path / "memory", tmp_path / "freezer")
    for path in ("memory/child/deeper", "memory/other", "freezer/child"):
        (tmp_path / path).mkdir(parents=True)
    fresh.remove()
    assert list(tmp_path.iterdir()) == []
    fresh.remove()


def test_removing_one_that_is_in_use_says_so(cgroup: CgroupV1) -> None:
    with pytest.raises(OSError):  # the kernel says EBUSY, a tree of files ENOTEMPTY
        cgroup.remove()
    assert cgroup.memory.is_dir()
