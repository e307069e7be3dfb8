"""Signals that are meant for the job."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable

from outgrow.agent.loop import Loop

_FOR_THE_JOB = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGWINCH,
)
TO_THE_GROUP = frozenset(
    {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH}
)
"""What a terminal, or the shell behind it, sends to a whole process group."""


class SignalRelay:
    """Hands every signal that this process gets, and that its parent did not have it ignore, to
    `deliver`, inside the loop."""

    def __init__(self, loop: Loop, deliver: Callable[[int], None]) -> None:
        self._deliver = deliver
        self._read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in _FOR_THE_JOB:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _noted)
                signal.siginterrupt(number, False)
        loop.watch(self._read, select.EPOLLIN, self._ready)

    def _ready(self, _: int) -> None:
        for number in os.read(self._read, 512):
            if number in _FOR_THE_JOB:
                self._deliver(number)


def _noted(_number: int, _frame: object) -> None:
    """The number comes through the wakeup descriptor."""
