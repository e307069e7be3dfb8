"""Samples for the picture: often while memory moves, and one last of all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outgrow.agent.loop import Loop, Timer
from outgrow.agent.sampler import Sampler
from outgrow.core.job import Job
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import GIB, MIB
from tests.contract.fakes import FakeCgroup, FakeClock, FakeTask, ListJournal

JOB = "abcdefgh"


class HeldLoop(Loop):
    """A loop whose timers the test fires."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self.next: tuple[float, Timer] | None = None

    def later(self, seconds: float, callback: Any) -> Timer:
        timer = Timer(callback)
        self.next = (seconds, timer)
        return timer

    def fire(self) -> float:
        """Let the next one come; after how many seconds it did."""
        assert self.next is not None
        seconds, timer = self.next
        self._clock.pass_by(seconds)
        timer.fire()
        return seconds


class Sampled:
    def __init__(self) -> None:
        self.clock = FakeClock(now=1000.0)
        self.journal = ListJournal()
        self.journal.job(Job(JOB, "grower", 0, ("true",), "/", LimitPolicy(GIB, GIB), 1.0))
        self.loop = HeldLoop(self.clock)
        self.cgroup = FakeCgroup()
        self.cgroup.create(GIB)
        self.task = FakeTask(7)
        self.cgroup.tasks.append(self.task)
        host: Any = SimpleNamespace(clock=self.clock, journal=self.journal)
        self.sampler = Sampler(host, self.loop, JOB)

    @property
    def seen(self) -> list[tuple[int, float, int]]:
        """Incarnation, time and MiB of each sample."""
        return [
            (number, sample.at, sample.usage // MIB)
            for _, number, sample in self.journal.all_samples
        ]


@pytest.fixture
def job() -> Sampled:
    return Sampled()


def test_it_looks_at_once_and_then_less_and_less_often(job: Sampled) -> None:
    job.sampler.follow(job.cgroup, 1)
    assert job.seen == [(1, 1000.0, 0)]
    waits = [job.loop.fire() for _ in range(12)]
    assert waits == sorted(waits)
    assert waits[-1] == 5.0
    assert len(job.seen) == 13


def test_it_looks_more_often_when_memory_moves(job: Sampled) -> None:
    job.sampler.follow(job.cgroup, 1)
    for _ in range(12):
        job.loop.fire()
    job.cgroup.charge(job.task, 100 * MIB)
    job.loop.fire()
    assert job.loop.fire() == pytest.approx(0.1)


def test_stopping_takes_a_last_sample_and_no_more(job: Sampled) -> None:
    job.sampler.follow(job.cgroup, 1)
    job.cgroup.charge(job.task, 100 * MIB)
    job.clock.pass_by(0.05)
    job.sampler.stop()
    assert job.seen == [(1, 1000.0, 0), (1, 1000.05, 100)]
    waiting = job.loop.next
    job.loop.fire()
    assert job.loop.next is waiting  # nothing asked for another
    job.sampler.stop()
    assert len(job.seen) == 2


def test_the_next_incarnation_is_followed_in_its_place(job: Sampled) -> None:
    job.sampler.follow(job.cgroup, 1)
    larger = FakeCgroup()
    larger.create(2 * GIB)
    job.sampler.follow(larger, 2)
    assert [number for number, _, _ in job.seen] == [1, 1, 2]
    assert job.journal.all_samples[-1][2].limit == 2 * GIB


def test_a_cgroup_that_is_gone_is_no_error(job: Sampled) -> None:
    job.sampler.follow(job.cgroup, 1)
    job.task.ended_by = 9
    job.cgroup.remove()
    job.loop.fire()
    job.sampler.stop()
    assert len(job.seen) == 1


def test_it_calls_once_when_usage_has_fallen(job: Sampled) -> None:
    called: list[int] = []
    job.cgroup.charge(job.task, 500 * MIB)
    job.sampler.follow(job.cgroup, 1)
    job.sampler.when_below(400 * MIB, lambda: called.append(1))
    job.loop.fire()
    job.task.own = 400 * MIB
    job.loop.fire()
    assert called == []
    job.task.own = 399 * MIB
    job.loop.fire()
    job.loop.fire()
    assert called == [1]
