"""The kernel's word that a job is held up at its limit, for PID 1 to hear beside outgrow."""

from __future__ import annotations

import os
import select


class Alarm:
    """Opened before the job starts: what the job does to its own mounts later changes nothing."""

    def __init__(self, watched: str, control: str) -> None:
        """`watched` tells by EPOLLPRI; with `control`, by an eventfd that is registered there."""
        self._watched = os.open(watched, os.O_RDONLY | os.O_CLOEXEC)
        self._event = -1
        if control:
            self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            register = os.open(control, os.O_WRONLY | os.O_CLOEXEC)
            os.write(register, f"{self._event} {self._watched}".encode())
            os.close(register)
        else:
            self.acknowledge()  # only after a first read does it tell of changes

    @property
    def descriptor(self) -> int:
        """What to poll."""
        return self._event if self._event >= 0 else self._watched

    @property
    def mask(self) -> int:
        """For which events."""
        return select.EPOLLIN if self._event >= 0 else select.EPOLLPRI

    def acknowledge(self) -> None:
        """Heard; it may ring again."""
        try:
            if self._event >= 0:
                os.eventfd_read(self._event)
            else:
                os.pread(self._watched, 4096, 0)
        except OSError:
            pass  # nothing to read after all
