"""The guard stops growth inside its callback, and lets page cache be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from outgrow.agent.guard import Guard, Stopped
from outgrow.agent.loop import Loop
from outgrow.core.sample import MemoryReading
from outgrow.core.units import MIB
from tests.contract.fakes import FakeCgroup, FakeTask

LIMIT, BAND = 256 * MIB, 32 * MIB


class Watched:
    """A guarded job: what its guard reports, and when."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.cgroup = FakeCgroup()
        self.cgroup.create(LIMIT)
        self.task = FakeTask(7)
        self.cgroup.tasks.append(self.task)
        self.stopped: list[Stopped] = []
        self.frozen_when_told: list[bool] = []
        self.guard = Guard(self.loop, self._on_growth)

    def _on_growth(self, stopped: Stopped) -> None:
        self.stopped.append(stopped)
        self.frozen_when_told.append(self.cgroup.frozen)

    def turn(self) -> None:
        """Let the loop hear all that the kernel has said so far."""
        self.loop.run_until(self.loop.sleep(0))

    def fill(self, size: int) -> None:
        self.cgroup.charge(self.task, size)


@pytest.fixture
def job() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.task.ended_by = 9
    watched.cgroup.remove()


def test_growth_below_the_band_is_nobodys_business(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.fill(LIMIT - BAND - MIB)
    job.turn()
    assert job.stopped == []
    assert not job.cgroup.frozen
    assert job.cgroup.fileno() >= 0


def test_growth_into_the_band_is_stopped_before_it_is_told(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.fill(LIMIT - BAND)
    job.turn()
    assert [stopped.stands for stopped in job.stopped] == [True]
    assert job.stopped[0].seconds >= 0
    assert job.frozen_when_told == [True]


def test_what_stands_is_held_for_an_engine_and_watched_no_more(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.fill(LIMIT - BAND)
    job.turn()
    assert job.cgroup.fileno() == -1
    assert job.cgroup.enforced() > LIMIT
    assert job.cgroup.limit == LIMIT
    job.turn()
    assert len(job.stopped) == 1


def test_a_task_that_does_not_stand_is_told_so(job: Watched) -> None:
    job.cgroup.stuck = True
    job.guard.arm(job.cgroup, BAND)
    job.fill(LIMIT - BAND)
    job.turn()
    assert [stopped.stands for stopped in job.stopped] == [False]


@pytest.mark.parametrize("step", ["acknowledge", "reading", "freeze", "hold"])
def test_a_cgroup_that_cannot_be_watched_or_stopped_is_told_so(
    job: Watched, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> bool:
        raise OSError(19, "No such device")

    job.guard.arm(job.cgroup, BAND)
    monkeypatch.setattr(job.cgroup, step, fail)
    job.fill(LIMIT - BAND)
    job.turn()
    assert [stopped.stands for stopped in job.stopped] == [False]
    job.turn()
    assert len(job.stopped) == 1


def test_page_cache_is_dropped_and_the_job_runs_on(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.fill(100 * MIB)
    for _ in range(3):
        job.cgroup.read_file(LIMIT - BAND - job.cgroup.usage())
        job.turn()
        assert job.cgroup.usage() == LIMIT - 2 * BAND
    assert job.stopped == []
    assert not job.cgroup.frozen
    assert job.cgroup.fileno() >= 0


def test_growth_after_all_that_reading_is_still_caught(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.cgroup.read_file(LIMIT - BAND)
    job.turn()
    job.cgroup.drop_cache(0)
    job.fill(LIMIT - BAND)
    job.turn()
    assert job.frozen_when_told == [True]


def test_only_a_job_that_streams_is_looked_at_while_it_runs(
    job: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking takes the kernel milliseconds, in which a job that grows would grow on."""
    seen: list[bool] = []
    reading = job.cgroup.reading

    def noted() -> MemoryReading:
        seen.append(job.cgroup.frozen)
        return reading()

    monkeypatch.setattr(job.cgroup, "reading", noted)
    job.guard.arm(job.cgroup, BAND)
    for _ in range(2):
        job.cgroup.read_file(LIMIT - BAND - job.cgroup.usage())
        job.turn()
    job.cgroup.drop_cache(0)
    job.fill(LIMIT - BAND)
    job.turn()
    assert seen == [True, False, False, True]
    assert job.frozen_when_told == [True]


def test_a_stream_that_is_nearly_through_is_stopped_before_anything_is_read(
    job: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So fast that looking first would be too late; yet it is no growth."""
    job.guard.arm(job.cgroup, BAND)
    freezes: list[float] = []
    freeze = job.cgroup.freeze

    def noted(timeout: float) -> bool:
        freezes.append(timeout)
        return freeze(timeout)

    monkeypatch.setattr(job.cgroup, "freeze", noted)
    for _ in range(2):
        job.cgroup.read_file(LIMIT - BAND // 2 + 1 - job.cgroup.usage())
        job.turn()
    assert len(freezes) == 2
    assert job.stopped == []
    assert not job.cgroup.frozen


def test_cache_that_does_not_go_is_growth_in_the_end(
    job: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    monkeypatch.setattr(job.cgroup, "drop_cache", tries.append)
    job.guard.arm(job.cgroup, BAND)
    job.cgroup.read_file(LIMIT - BAND)
    job.turn()
    assert tries == [LIMIT - 2 * BAND] * 3
    assert job.frozen_when_told == [True]


def test_dirty_cache_is_stopped_to_be_looked_at_standing(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.cgroup.dirty = LIMIT - BAND - MIB
    job.fill(2 * MIB)
    job.turn()
    assert job.frozen_when_told == [True]


def test_usage_that_fell_again_is_a_false_alarm(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.fill(LIMIT - BAND)
    job.task.own = MIB  # before the loop gets to hear of it
    job.turn()
    assert job.stopped == []
    assert not job.cgroup.frozen
    job.fill(LIMIT - BAND)
    job.turn()
    assert job.frozen_when_told == [True]


def test_what_had_crossed_before_it_was_armed_is_found_at_once(job: Watched) -> None:
    job.fill(LIMIT - BAND)
    job.guard.arm(job.cgroup, BAND)
    assert job.frozen_when_told == [True]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda job: job.guard.disarm_events(), id="disarmed"),
        pytest.param(lambda job: job.guard.hold(job.cgroup), id="held"),
    ],
)
def test_an_unarmed_guard_is_silent(job: Watched, end: Callable[[Watched], None]) -> None:
    job.guard.arm(job.cgroup, BAND)
    end(job)
    job.fill(LIMIT - BAND)
    job.turn()
    assert job.stopped == []
    end(job)


def test_it_is_armed_anew_for_another_limit(job: Watched) -> None:
    job.guard.arm(job.cgroup, BAND)
    job.cgroup.set_limit(2 * LIMIT)
    job.guard.arm(job.cgroup, BAND)
    job.fill(LIMIT)
    job.turn()
    assert job.stopped == []
    job.fill(LIMIT - BAND)
    job.turn()
    assert job.frozen_when_told == [True]
