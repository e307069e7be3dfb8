"""How a job ended, from what wait(2) says."""

from __future__ import annotations

import os
import signal

import pytest

from outgrow.core import ending


@pytest.mark.parametrize(
    ("wait_status", "oom_kills", "status", "killed", "reason"),
    [
        pytest.param(0, 0, 0, False, "", id="well"),
        pytest.param(7 << 8, 0, 7, False, "", id="by its own will"),
        pytest.param(255 << 8, 0, 255, False, "", id="the largest status"),
        pytest.param(15, 0, 143, False, "ended by signal 15", id="by SIGTERM"),
        pytest.param(11 | 0x80, 0, 139, False, "ended by signal 11", id="with a core dump"),
        pytest.param(9, 0, 137, True, "ended by signal 9", id="by SIGKILL"),
        pytest.param(
            9, 2, 137, True, "the kernel killed 2 of its processes at the limit", id="at its limit"
        ),
        pytest.param(
            1 << 8, 1, 1, False, "the kernel killed 1 of its processes at the limit", id="a child"
        ),
        pytest.param(
            None,
            0,
            137,
            True,
            "all its processes were killed from outside, nobody saw it end",
            id="unseen",
        ),
    ],
)
def test_an_ending(
    wait_status: int | None, oom_kills: int, status: int, killed: bool, reason: str
) -> None:
    assert ending.exit_status(wait_status) == status
    assert ending.was_killed(wait_status) is killed
    assert ending.reason(wait_status, oom_kills) == reason


def test_a_status_of_137_by_its_own_will_is_no_kill() -> None:
    assert ending.exit_status(137 << 8) == 137
    assert not ending.was_killed(137 << 8)


@pytest.mark.parametrize(
    ("end", "status"), [("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_a_real_wait_status_is_understood(end: str, status: int) -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", end], {})
    _, wait_status = os.waitpid(pid, 0)
    assert ending.exit_status(wait_status) == status


def test_sigkill_is_what_the_system_calls_so() -> None:
    assert ending.SIGKILL == signal.SIGKILL
