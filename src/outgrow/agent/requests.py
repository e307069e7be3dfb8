"""What others ask of a job's keeper, and what keeping it comes to."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Protocol

from outgrow.agent.loop import Future


class Say(Protocol):
    """Shows a line to whoever watches the job; `trouble` also to those who only asked to hear of
    that."""

    def __call__(self, text: str, *, trouble: bool = False) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How keeping a job ended: the job's own status, or None when it is kept on disk."""

    status: int | None
    message: str = ""


@dataclass(frozen=True)
class Request:
    """Something that another process wants: `save`, `move` or `kill`; `answer` gets the result."""

    verb: str
    answer: Future[dict[str, object]]
    stop: bool = False
    memory: int = 0
    signal: int = signal.SIGTERM
