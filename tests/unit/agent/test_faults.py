"""Where the tests kill or stop outgrow, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from outgrow.agent import faults
assert "OUTGROW_FAULT" not in os.environ
faults.reached("dumping")
print("went on", flush=True)
"""


def run(fault: str | None) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "OUTGROW_FAULT"}
    if fault is not None:
        environment["OUTGROW_FAULT"] = fault
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("kill@dumped", id="another step"),
        pytest.param("kill@", id="no step"),
        pytest.param("kill", id="no step at all"),
        pytest.param("explode@dumping", id="an unknown way"),
        pytest.param("dumping@kill", id="the wrong way round"),
    ],
)
def test_nothing_happens_where_nothing_was_asked_for(fault: str | None) -> None:
    with run(fault) as process:
        assert process.communicate(timeout=20)[0] == "went on\n"
        assert process.returncode == 0


def test_it_is_killed_at_the_step_and_not_after() -> None:
    with run("kill@dumping") as process:
        assert process.communicate(timeout=20)[0] == ""
        assert process.returncode == -signal.SIGKILL


def test_it_is_stopped_at_the_step_and_goes_on_when_it_is_let() -> None:
    with run("stop@dumping") as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=20)[0] == "went on\n"
