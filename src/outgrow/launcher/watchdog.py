"""Whether outgrow is there to look after a job that it has stopped, and the way back if not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

from outgrow.launcher.alarm import Alarm

HUNG_AFTER = 2.0
"""Seconds without a word from outgrow, with the job frozen, after which it counts as hung."""


class Watchdog:
    """The state of PID 1's watch on outgrow. `undo` is ports.Undo as a plain object."""

    def __init__(self, undo: dict[str, Any]) -> None:
        self.alarm = Alarm(undo["alarm"], undo["alarm_control"])
        self.gone = False
        """It died or hung, and has not frozen the job again since."""
        self._frozen: int | None = None
        """Token of the freeze that outgrow told of, until it thaws."""
        self._let_go: set[int] = set()
        self._heard = time.monotonic()
        self._asked: float | None = None
        """When outgrow was asked whether it is there, until it says something."""
        self._files: dict[str, int] = {}
        self._undo: list[tuple[int, bytes]] = []
        self.renew(undo["writes"])

    def renew(self, writes: Iterable[tuple[str, str]]) -> None:
        """What gives the job back to the kernel from now on. Raises OSError.

        The files are opened before the job starts, and then kept: what it does to its own mounts
        later changes nothing.
        """
        for path, _ in writes:
            if path not in self._files:
                self._files[path] = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        self._undo = [(self._files[path], text.encode()) for path, text in writes]

    def heard(self) -> None:
        """Outgrow said something."""
        self._heard, self._asked = time.monotonic(), None

    def frozen(self, token: int) -> None:
        """Outgrow has frozen the job, and will thaw it or be taken for gone."""
        self._frozen, self.gone = token, False

    def thawed(self) -> None:
        """Outgrow let the job run."""
        self._frozen = None

    def stands_since(self, token: int) -> bool:
        """Whether the job has not run since the freeze of that token."""
        return self._frozen == token and token not in self._let_go

    def must_ask(self) -> bool:
        """The job is held up at its limit. Whether to ask outgrow now if it is there."""
        self.alarm.acknowledge()
        if self._asked is not None:
            return False
        self._asked = time.monotonic()
        return True

    def deadline(self) -> float | None:
        """When (time.monotonic) outgrow counts as hung unless it says something."""
        if self._frozen is not None:
            return self._heard + HUNG_AFTER
        return None if self._asked is None else self._asked + HUNG_AFTER

    def let_go(self) -> int | None:
        """Outgrow is gone; `give_back` follows. The token of the freeze that stood, which can
        never be released any more."""
        token, self._frozen = self._frozen, None
        self.gone, self._asked = True, None
        if token is not None:
            self._let_go.add(token)
        return token

    def give_back(self) -> None:
        """The job is the kernel's, as if outgrow were not there."""
        for descriptor, text in self._undo:
            try:
                os.write(descriptor, text)
            except OSError:
                continue  # EBUSY: usage is above the limit for now; the other writes still count
