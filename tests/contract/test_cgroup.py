"""Cgroup: the same meaning on v1, on v2 and on the fake."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outgrow.core.units import MIB
from outgrow.launcher.alarm import Alarm
from outgrow.ports import Cgroup

from .cgroups import A_MOMENT, KERNELS, SOON, Kernel, Killed, Process, RealProcess

LIMIT, BAND = 96 * MIB, 16 * MIB


@pytest.fixture(params=KERNELS, ids=["fake", "v1", "v2"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """Each kernel in turn, with the cgroup made."""
    made: Kernel = request.param()
    made.cgroup.create(LIMIT)
    yield made
    made.close()


@pytest.fixture
def cgroup(kernel: Kernel) -> Cgroup:
    return kernel.cgroup


def ready(cgroup: Cgroup, timeout: float) -> bool:
    """Whether the kernel says something in time, as the agent's loop hears it."""
    with select.epoll() as poll:
        poll.register(cgroup.fileno(), cgroup.poll_mask)
        return bool(poll.poll(timeout))


def runs_again(process: Process) -> bool:
    """Also one that was spoken to while it stood."""
    if isinstance(process, RealProcess):
        process.catch_up()
    return process.runs()


def wait_until(true: Callable[[], bool]) -> None:
    """For what the kernel gives no notice of."""
    end = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def wait_at_the_limit(cgroup: Cgroup) -> None:
    """Until the job has got as far as it can; an armed cgroup gives notice of that as well."""
    while cgroup.usage() < cgroup.limit - MIB // 2:
        assert ready(cgroup, SOON)
        cgroup.acknowledge()


def test_it_is_made_empty_with_its_limit(kernel: Kernel, cgroup: Cgroup) -> None:
    assert kernel.is_there()
    assert cgroup.limit == kernel.enforced() == LIMIT
    assert cgroup.processes() == []
    assert cgroup.usage() < MIB
    assert cgroup.oom_kills() == 0
    assert cgroup.is_frozen() is False
    assert cgroup.fileno() == -1


def test_who_joins_is_in_it(kernel: Kernel, cgroup: Cgroup) -> None:
    one, two = kernel.process(), kernel.process()
    assert sorted(cgroup.processes()) == sorted([one.pid, two.pid])
    two.end()
    assert cgroup.processes() == [one.pid]


def test_a_process_in_a_child_cgroup_is_in_it(kernel: Kernel, cgroup: Cgroup) -> None:
    inside = kernel.process(below="made-by-the-job")
    assert cgroup.processes() == [inside.pid]
    before = cgroup.usage()
    inside.fill(10 * MIB)
    assert cgroup.usage() - before >= 9 * MIB


def test_memory_of_its_own_is_read_as_such(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    before = cgroup.reading()
    process.fill(20 * MIB)
    after = cgroup.reading()
    assert 19 * MIB <= after.own - before.own <= 24 * MIB
    assert after.usage - before.usage >= 19 * MIB
    assert abs(cgroup.usage() - after.usage) <= 4 * MIB
    assert cgroup.peak() >= after.usage - 4 * MIB


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """On a disk: what lies in memory is no page cache."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    here = max(
        (line.split()[:3] for line in mounts if tmp_path.is_relative_to(line.split()[1])),
        key=lambda mount: len(mount[1]),
    )
    if here[2] in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} lies in memory: set TMPDIR to a directory on a disk")
    return tmp_path / "file"


def test_page_cache_is_not_its_own(kernel: Kernel, cgroup: Cgroup, file: Path) -> None:
    process = kernel.process()
    before = cgroup.reading()
    process.cache(24 * MIB, file)
    after = cgroup.reading()
    assert after.clean_cache - before.clean_cache >= 20 * MIB
    assert after.own - before.own <= 8 * MIB


def test_cache_is_dropped_down_to_what_was_asked_for(
    kernel: Kernel, cgroup: Cgroup, file: Path
) -> None:
    process = kernel.process()
    process.fill(20 * MIB)
    process.cache(40 * MIB, file)
    reading = cgroup.reading()
    cgroup.drop_cache(reading.usage - 20 * MIB)
    after = cgroup.reading()
    assert after.usage <= reading.usage - 18 * MIB
    assert abs(after.own - reading.own) <= 8 * MIB
    assert cgroup.limit == kernel.enforced() == LIMIT
    assert process.runs()


def test_the_limit_stands_even_when_nothing_can_be_dropped(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    process.fill(30 * MIB)
    cgroup.drop_cache(8 * MIB)
    assert cgroup.limit == kernel.enforced() == LIMIT
    assert cgroup.usage() >= 30 * MIB
    process.fill(30 * MIB)
    assert cgroup.oom_kills() == 0


def test_it_fires_when_usage_crosses_the_band_and_not_before(
    kernel: Kernel, cgroup: Cgroup
) -> None:
    process = kernel.process()
    cgroup.arm(BAND)
    assert cgroup.fileno() >= 0
    process.fill(40 * MIB)
    assert not ready(cgroup, 0)
    assert not cgroup.acknowledge()
    process.begin_to_fill(45 * MIB)
    assert ready(cgroup, SOON)
    assert cgroup.acknowledge()


def test_a_child_cgroup_crosses_too(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process(below="made-by-the-job")
    cgroup.arm(BAND)
    process.begin_to_fill(85 * MIB)
    assert ready(cgroup, SOON)
    assert cgroup.acknowledge()


def test_it_is_armed_anew_for_another_limit(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    cgroup.arm(BAND)
    cgroup.set_limit(2 * LIMIT)
    cgroup.arm(BAND)
    process.fill(85 * MIB)  # across what was the band before
    assert not ready(cgroup, A_MOMENT)
    process.begin_to_fill(95 * MIB)
    assert ready(cgroup, SOON)


def test_disarmed_it_says_nothing(kernel: Kernel, cgroup: Cgroup) -> None:
    cgroup.arm(BAND)
    cgroup.disarm()
    assert cgroup.fileno() == -1
    cgroup.disarm()


def test_frozen_no_task_runs_until_it_is_thawed(kernel: Kernel, cgroup: Cgroup) -> None:
    processes = [kernel.process(), kernel.process(), kernel.process(below="made-by-the-job")]
    assert all(process.runs() for process in processes)
    assert cgroup.freeze(SOON) is True
    assert cgroup.is_frozen() is True
    assert not any(process.runs() for process in processes)
    cgroup.thaw()
    assert cgroup.is_frozen() is False
    assert all(runs_again(process) for process in processes)


def test_freezing_and_thawing_twice_is_as_once(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    for _ in range(2):
        assert cgroup.freeze(SOON) is True
    for _ in range(2):
        cgroup.thaw()
    assert process.runs()


def test_an_empty_cgroup_can_be_frozen(cgroup: Cgroup) -> None:
    assert cgroup.freeze(SOON) is True
    cgroup.thaw()


def test_growth_is_stopped_where_it_crossed(kernel: Kernel, cgroup: Cgroup) -> None:
    """What the guard does: on the event it freezes, and the job has not reached its limit."""
    process = kernel.process()
    cgroup.arm(BAND)
    process.begin_to_fill(85 * MIB)  # into the band, and not past the limit
    assert ready(cgroup, SOON)
    assert cgroup.freeze(SOON) is True
    assert cgroup.usage() <= LIMIT
    assert cgroup.oom_kills() == 0
    cgroup.thaw()
    process.finish()


def test_held_it_gives_no_notice_and_has_room_for_an_engine(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    cgroup.arm(BAND)
    process.begin_to_fill(85 * MIB)
    assert ready(cgroup, SOON)
    assert cgroup.freeze(SOON) is True
    cgroup.hold()
    assert cgroup.fileno() == -1
    assert cgroup.limit == LIMIT
    assert kernel.enforced() >= LIMIT + 16 * MIB
    assert cgroup.is_frozen() is True
    cgroup.disarm()
    assert cgroup.limit == kernel.enforced() == LIMIT
    cgroup.thaw()
    process.finish()


def test_a_job_that_used_what_it_was_given_while_held_keeps_it(
    kernel: Kernel, cgroup: Cgroup
) -> None:
    process = kernel.process()
    cgroup.hold()
    process.fill(LIMIT + MIB)
    cgroup.arm(BAND)
    assert cgroup.limit == kernel.enforced() == LIMIT + 16 * MIB
    assert cgroup.oom_kills() == 0
    assert process.runs()


def test_a_job_that_comes_back_outgrows_nothing_unnoticed(kernel: Kernel, cgroup: Cgroup) -> None:
    """Between its first instruction and the first look of the guard."""
    if not kernel.holds_at_limit:
        pytest.skip("cgroup v2 has no way to hold a job at its limit; it slows it in the band")
    process = kernel.process()
    cgroup.brace(BAND, MIB)
    assert cgroup.fileno() == -1
    assert cgroup.limit == LIMIT
    assert kernel.enforced() == LIMIT + 17 * MIB
    assert cgroup.is_starved() is False
    process.begin_to_fill(LIMIT + 40 * MIB)
    wait_until(cgroup.is_starved)
    assert cgroup.oom_kills() == 0
    cgroup.arm(BAND)
    assert cgroup.freeze(SOON) is True
    cgroup.set_limit(2 * LIMIT)
    cgroup.thaw()
    process.finish()
    assert cgroup.is_starved() is False


def test_a_braced_cgroup_is_guarded_again_by_arming(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    cgroup.brace(BAND, MIB)
    cgroup.arm(BAND)
    assert cgroup.limit == kernel.enforced() == LIMIT
    process.begin_to_fill(85 * MIB)
    assert ready(cgroup, SOON)


def test_a_larger_limit_is_room_to_grow(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    cgroup.set_limit(2 * LIMIT)
    assert cgroup.limit == kernel.enforced() == 2 * LIMIT
    process.fill(LIMIT)
    assert cgroup.oom_kills() == 0


def test_a_limit_below_what_is_used_is_refused(kernel: Kernel, cgroup: Cgroup) -> None:
    if not kernel.refuses_limits:
        pytest.skip("cgroup v2 kills instead; outgrow only ever raises a limit there")
    process = kernel.process()
    process.fill(40 * MIB)
    with pytest.raises(OSError):
        cgroup.set_limit(20 * MIB)
    assert cgroup.limit == kernel.enforced() == LIMIT
    assert process.runs()


def test_past_its_limit_a_job_without_a_guard_is_killed(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    with pytest.raises(Killed):
        process.fill(LIMIT + 20 * MIB)
    assert cgroup.oom_kills() == 1
    assert cgroup.processes() == []
    assert LIMIT - 4 * MIB <= cgroup.peak() <= LIMIT


def test_a_job_that_outran_its_guard_waits_and_is_stopped(kernel: Kernel, cgroup: Cgroup) -> None:
    if not kernel.holds_at_limit:
        pytest.skip("cgroup v2 has no way to hold a job at its limit; it slows it in the band")
    process = kernel.process()
    cgroup.arm(BAND)
    process.begin_to_fill(LIMIT + 20 * MIB)
    wait_at_the_limit(cgroup)
    assert cgroup.freeze(SOON) is True
    assert cgroup.oom_kills() == 0
    assert cgroup.processes() == [process.pid]
    cgroup.set_limit(2 * LIMIT)
    cgroup.thaw()
    process.finish()


@pytest.mark.parametrize("grown", [False, True], ids=["as made", "grown"])
def test_undo_gives_the_job_back_to_the_kernel(kernel: Kernel, cgroup: Cgroup, grown: bool) -> None:
    """PID 1 got it while all was well, and applies it alone, in whatever state the job is."""
    process = kernel.process()
    limit = LIMIT
    if grown:
        limit = LIMIT + 32 * MIB
        cgroup.set_limit(limit)
    undo = cgroup.undo()
    cgroup.arm(BAND)
    assert cgroup.freeze(SOON)
    kernel.apply(undo)
    assert cgroup.is_frozen() is False
    assert kernel.enforced() == limit
    assert process.runs()
    process.fill(limit - 32 * MIB)  # past the band, where nobody stops it now
    with pytest.raises(Killed):  # and the kernel's own rule at the limit
        process.fill(48 * MIB)
    assert cgroup.oom_kills() == 1


def test_undo_frees_a_job_that_waits_at_its_limit(kernel: Kernel, cgroup: Cgroup) -> None:
    if not kernel.holds_at_limit:
        pytest.skip("cgroup v2 has no way to hold a job at its limit")
    process = kernel.process()
    undo = cgroup.undo()
    cgroup.arm(BAND)
    process.begin_to_fill(LIMIT + 20 * MIB)
    wait_at_the_limit(cgroup)
    kernel.apply(undo)
    with pytest.raises(Killed):
        process.finish()
    assert cgroup.oom_kills() == 1


def test_undo_applied_to_a_job_that_is_well_changes_nothing(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process()
    for _ in range(2):
        kernel.apply(cgroup.undo())
    assert process.runs()
    assert kernel.enforced() == LIMIT


@pytest.fixture(params=KERNELS[1:], ids=["v1", "v2"])
def real(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """The kernels of hosts."""
    made: Kernel = request.param()
    made.cgroup.create(LIMIT)
    yield made
    made.close()


def test_pid_1_hears_that_a_job_is_held_up(real: Kernel) -> None:
    """Should outgrow not be there to hear it."""
    undo = real.cgroup.undo()
    alarm = Alarm(undo.alarm, undo.alarm_control)
    process = real.process()
    real.cgroup.arm(BAND)
    with select.epoll() as poll:
        poll.register(alarm.descriptor, alarm.mask)
        process.fill(40 * MIB)
        assert poll.poll(0) == []
        process.begin_to_fill(LIMIT)
        assert poll.poll(SOON) != []
    alarm.acknowledge()
    os.close(alarm.descriptor)


def test_it_is_removed_once_it_is_empty(kernel: Kernel, cgroup: Cgroup) -> None:
    process = kernel.process(below="made-by-the-job")
    with pytest.raises(OSError):
        cgroup.remove()
    assert kernel.is_there()
    process.end()
    cgroup.remove()
    assert not kernel.is_there()
    cgroup.remove()
    with pytest.raises(FileNotFoundError):
        cgroup.usage()


def test_removing_takes_the_guard_with_it(cgroup: Cgroup) -> None:
    cgroup.arm(BAND)
    cgroup.remove()
    assert cgroup.fileno() == -1


Use = Callable[[Cgroup], object]


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda cgroup: cgroup.thaw(), id="thaw"),
        pytest.param(lambda cgroup: cgroup.usage(), id="usage"),
        pytest.param(lambda cgroup: cgroup.peak(), id="peak"),
        pytest.param(lambda cgroup: cgroup.reading(), id="reading"),
    ],
)
def test_one_that_is_gone_says_so(kernel: Kernel, cgroup: Cgroup, use: Use) -> None:
    cgroup.remove()
    with pytest.raises(FileNotFoundError):
        use(cgroup)
    assert cgroup.processes() == []
