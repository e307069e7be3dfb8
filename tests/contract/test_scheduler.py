"""Scheduler: what it promises to jobs, whoever it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from outgrow.core.units import GIB, MIB
from outgrow.kernel.cgroups import find_hierarchies
from outgrow.kernel.proc import memory_total_and_available
from outgrow.ports import Scheduler
from outgrow.schedulers.local import LocalScheduler, promises_below

from .fakes import FixedScheduler

TREES = Path(__file__).parents[1] / "trees"


def fixed() -> Scheduler:
    return FixedScheduler(room=4 * GIB, cap=15 * GIB)


def local_with_fakes() -> Scheduler:
    return LocalScheduler(lambda: (16 * GIB, 6 * GIB), lambda: {"/a": (2 * GIB, GIB)})


def local_on_a_tree() -> Scheduler:
    family = find_hierarchies(TREES / "v1-host").family()[0]
    return LocalScheduler(lambda: (16 * GIB, 6 * GIB), lambda: promises_below(family))


def local_on_this_host() -> Scheduler:
    return LocalScheduler(memory_total_and_available, dict)


SCHEDULERS = [
    pytest.param(fixed, id="fixed"),
    pytest.param(local_with_fakes, id="local with fakes"),
    pytest.param(local_on_a_tree, id="local on a tree"),
    pytest.param(local_on_this_host, id="local on this host"),
]


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    made: Scheduler = request.param()
    return made


def test_room_is_within_the_cap(scheduler: Scheduler) -> None:
    assert 0 <= scheduler.room() <= scheduler.cap()


def test_a_job_has_at_least_the_room_that_everybody_has(scheduler: Scheduler) -> None:
    everybody = scheduler.room()
    assert scheduler.room(apart_from=("/a", "/no/such/cgroup")) >= everybody - 256 * MIB


def test_a_cap_stands(scheduler: Scheduler) -> None:
    assert scheduler.cap() == scheduler.cap() > 0


def test_its_own_promise_is_no_obstacle_to_a_job() -> None:
    family = find_hierarchies(TREES / "v1-host").family()[0]
    own = str(family / "bcdefghj-2")
    here = local_on_a_tree()
    assert here.room(apart_from=[own]) - here.room() == 511 * MIB
