"""A pause is not there for the clocks by which a job measures time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.host.kit import Outgrow, python, read_line, running

PAUSE = 2.0
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/ns/time").exists(), reason="needs time namespaces: Linux 5.6 or newer"
)


def over_a_pause(outgrow: Outgrow, program: str) -> list[float]:
    """Run it; after its first line it is saved, lies on disk for a while, and is resumed. What it
    prints then."""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words)) as process:
        assert read_line(process) == "on\n"
        outgrow.wait_for("j", "running")
        assert outgrow("save", "j", "--stop").returncode == 0
        assert process.wait(60) == 75
    time.sleep(PAUSE)
    done = outgrow("resume", "j", stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.parametrize("clock", ["CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW"])
def test_clocks_that_only_go_on_do_not_jump(outgrow: Outgrow, clock: str) -> None:
    program = f"""
import time
def now(): return time.clock_gettime(time.{clock})
began, wall = now(), time.time()
print("on", flush=True)
last, gap = now(), 0.0
while time.time() - wall < {PAUSE + 4}:
    time.sleep(0.01)
    gap, last = max(gap, now() - last), now()
print(gap, last - began, time.time() - wall)
"""
    gap, passed, wall = over_a_pause(outgrow, program)
    assert 0 < gap < PAUSE / 2
    assert passed < wall - PAUSE


def test_what_waits_waits_its_whole_time(outgrow: Outgrow) -> None:
    """A sleep, a timer and a poll with a time-out, all begun before the pause."""
    program = """
import ctypes, os, select, signal, struct, threading, time
libc = ctypes.CDLL(None)
def timed(what, *of):
    began = time.monotonic(); what(*of); took.append(time.monotonic() - began)
took = []
timer = libc.timerfd_create(1, 0)  # CLOCK_MONOTONIC
libc.timerfd_settime(timer, 0, struct.pack("qqqq", 0, 0, 4, 0), None)
threads = [
    threading.Thread(target=timed, args=(time.sleep, 4)),
    threading.Thread(target=timed, args=(select.select, [], [], [], 4)),
    threading.Thread(target=timed, args=(os.read, timer, 8)),
    threading.Thread(target=timed, args=(threading.Event().wait, 4)),
]
for thread in threads: thread.start()
print("on", flush=True)
for thread in threads: thread.join()
print(*took)
"""
    took = over_a_pause(outgrow, program)
    assert len(took) == 4
    assert all(3.9 < seconds < 6 for seconds in took), took
