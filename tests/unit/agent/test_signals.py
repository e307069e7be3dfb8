"""Signals that are meant for the job, seen from a process that gets them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys
from outgrow.agent.loop import Future, Loop
from outgrow.agent.signals import SignalRelay

wanted = int(sys.argv[1])
loop, delivered, enough = Loop(), [], Future()

def deliver(number):
    delivered.append(number)
    if len(delivered) >= wanted:
        enough.set(None)

SignalRelay(loop, deliver)
print("ready", flush=True)
loop.run_until(enough)
print(*delivered, flush=True)
"""


def run(wanted: int, ignore: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(wanted)]
    if ignore:  # as nohup does
        command = ["/bin/sh", "-c", f"trap '' {ignore}; exec \"$@\"", "sh", *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1),
        *(signal.SIGUSR2, signal.SIGALRM, signal.SIGCONT, signal.SIGTSTP, signal.SIGWINCH),
    ],
)
def test_a_signal_is_delivered_and_does_nothing_else(number: signal.Signals) -> None:
    with run(1) as process:
        process.send_signal(number)
        assert process.communicate(timeout=20)[0] == f"{number.value}\n"
        assert process.returncode == 0


def test_what_the_caller_had_ignored_stays_ignored() -> None:
    with run(1, ignore="HUP") as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGUSR1)
        assert process.communicate(timeout=20)[0] == f"{signal.SIGUSR1.value}\n"


def test_one_after_another_is_delivered() -> None:
    with run(2) as process:
        process.send_signal(signal.SIGUSR2)
        process.send_signal(signal.SIGUSR1)
        numbers = process.communicate(timeout=20)[0].split()
    assert {int(number) for number in numbers} == {signal.SIGUSR1, signal.SIGUSR2}
