"""Clock: time as it is, and time that a test holds."""

from __future__ import annotations

import time

import pytest

from outgrow.agent.host import SystemClock
from outgrow.ports import Clock

from .fakes import FakeClock

CLOCKS = [pytest.param(SystemClock, id="system"), pytest.param(FakeClock, id="fake")]


@pytest.mark.parametrize("kind", CLOCKS)
def test_time_is_in_seconds_and_never_runs_backwards(kind: type[Clock]) -> None:
    clock: Clock = kind()
    seen = [clock.monotonic() for _ in range(1000)]
    assert seen == sorted(seen)
    assert clock.now() > 0


def test_the_system_clock_is_the_systems() -> None:
    before, after = time.time(), time.monotonic()
    clock = SystemClock()
    assert before <= clock.now() <= time.time()
    assert after <= clock.monotonic() <= time.monotonic()


def test_the_fake_clock_stands_until_it_is_moved() -> None:
    clock = FakeClock(now=5.0)
    assert (clock.now(), clock.monotonic()) == (5.0, 0.0)
    clock.pass_by(2.5)
    assert (clock.now(), clock.monotonic()) == (7.5, 2.5)
