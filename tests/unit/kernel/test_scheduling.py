"""What schedules a thread is read and given back, by the example of one of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outgrow import libc
from outgrow.core.scheduling import ThreadSchedule
from outgrow.kernel.scheduling import own_schedules, schedule_again

IDLE = 3 << 13
"""IOPRIO_CLASS_IDLE (linux/ioprio.h)."""


@pytest.fixture
def thread() -> Iterator[int]:
    """The id of one that sleeps."""
    end, tid = threading.Event(), []
    began = threading.Event()

    def sleep() -> None:
        tid.append(threading.get_native_id())
        began.set()
        end.wait()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    began.wait()
    yield tid[0]
    end.set()
    sleeper.join()


def test_a_thread_like_the_one_that_started_it_has_nothing_of_its_own(thread: int) -> None:
    assert own_schedules([os.getpid()], os.getpid()) == ()


def test_what_a_thread_has_set_for_itself_is_given_back_to_it(thread: int) -> None:
    one = min(os.sched_getaffinity(0))
    usual = os.sched_getaffinity(0)
    if len(usual) < 2:
        pytest.skip("needs two CPUs to choose from")
    os.sched_setaffinity(thread, {one})
    libc.ioprio_set(thread, IDLE)
    Path(f"/proc/{thread}/timerslack_ns").write_text("123456")
    found = own_schedules([os.getpid(), 2**22 + 1], os.getpid())
    assert found == (ThreadSchedule(found[0].tid, (one,), IDLE, 123456),)
    os.sched_setaffinity(thread, usual)
    libc.ioprio_set(thread, 0)
    Path(f"/proc/{thread}/timerslack_ns").write_text("50000")
    assert own_schedules([os.getpid()], os.getpid()) == ()
    schedule_again([os.getpid()], found)
    assert own_schedules([os.getpid()], os.getpid()) == found


def test_a_cpu_that_is_not_there_is_left_out(thread: int) -> None:
    os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
    (found,) = own_schedules([os.getpid()], os.getpid()) or (None,)
    if found is None:
        pytest.skip("needs two CPUs to choose from")
    os.sched_setaffinity(thread, os.sched_getaffinity(0))
    schedule_again([os.getpid()], [replace(found, cpus=(4095,))])
    assert own_schedules([os.getpid()], os.getpid()) == ()
    schedule_again([os.getpid()], [replace(found, cpus=(*found.cpus, 4095))])
    assert own_schedules([os.getpid()], os.getpid()) == (found,)


def test_what_cannot_be_read_is_left_out() -> None:
    assert own_schedules([os.getpid()], 2**22 + 1) == ()
