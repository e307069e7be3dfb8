"""The errors of outgrow: one root, and for each of them the exit status that it ends with.

A message says what happened, what was preserved, and what to do.
"""

from __future__ import annotations


class OutgrowError(Exception):
    """Root of every error that outgrow raises on purpose.

    `preserved` says what is still there (a running job, a checkpoint); `remedy` what to do next.
    """

    exit_status = 1

    def __init__(self, message: str, *, preserved: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.preserved = preserved
        self.remedy = remedy

    def __str__(self) -> str:
        parts = [self.message, self.preserved, self.remedy]
        return "; ".join(part for part in parts if part)


class Transient(OutgrowError):
    """It failed now and may well work later; `retry_after` in seconds, None when nobody knows."""

    exit_status = 75

    def __init__(
        self,
        message: str,
        *,
        preserved: str = "",
        remedy: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, preserved=preserved, remedy=remedy)
        self.retry_after = retry_after


class Permanent(OutgrowError):
    """It failed, and trying again changes nothing."""


class Unsupported(OutgrowError):
    """This host cannot do it: `feature` is what is missing."""

    exit_status = 14

    def __init__(self, feature: str, *, remedy: str, preserved: str = "") -> None:
        super().__init__(f"this host cannot: {feature}", preserved=preserved, remedy=remedy)
        self.feature = feature


class Usage(OutgrowError):
    """The caller asked for something that makes no sense."""

    exit_status = 2


class NotFound(OutgrowError):
    """No such job or checkpoint."""

    exit_status = 10


class Busy(OutgrowError):
    """The job is doing something that excludes this."""

    exit_status = 11


class Damaged(OutgrowError):
    """A checkpoint is not what was written: nothing of it is used."""

    exit_status = 12


class CannotSave(OutgrowError):
    """This job cannot be saved; the message holds the reasons."""

    exit_status = 13
