"""What should happen to a job at its limit: the ladder of actions and their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from outgrow.core.errors import Usage
from outgrow.core.sizing import DEFAULT_BAND, DEFAULT_NEXT_SIZE, NextSize, band_for
from outgrow.core.units import GIB, MIB, format_size


class Action(StrEnum):
    """One rung of the ladder."""

    WARN = "warn"
    """Send a signal and give a grace period in which the band is the job's to use."""
    GROW = "grow"
    """Raise the limit where the job is."""
    MOVE = "move"
    """Save, release, resume under the next size."""
    LEAVE = "leave"
    """Do nothing; the kernel's rule stands."""


SMALLEST_LIMIT = 16 * MIB
"""Below this there is no room for the few MiB that starting a program, or bringing it back, takes
inside its cgroup."""


SHORTEST_INTERVAL = 0.1
"""Seconds; a small job's save takes about as long."""


@dataclass(frozen=True)
class LimitPolicy:
    """What to do when a job comes within `band` bytes of its limit.

    `memory` is the first limit and `max_memory` the last, both in bytes. `on_limit` is tried in
    order until a rung holds. `warn_grace` is in seconds.
    """

    memory: int
    max_memory: int
    next_size: NextSize = DEFAULT_NEXT_SIZE
    wanted_band: int = DEFAULT_BAND
    on_limit: tuple[Action, ...] = (Action.GROW, Action.MOVE)
    warn_signal: int = 15
    warn_grace: float = 30.0

    def __post_init__(self) -> None:
        if self.memory < SMALLEST_LIMIT:
            raise Usage(
                f"--memory {format_size(self.memory)} is too little to start a program in",
                remedy=f"give at least {format_size(SMALLEST_LIMIT)}",
            )
        if self.max_memory < self.memory:
            raise Usage(
                f"--max-memory {format_size(self.max_memory)} is below"
                f" --memory {format_size(self.memory)}",
                remedy="raise the one or lower the other",
            )
        if self.wanted_band < MIB:
            raise Usage(
                f"--band {format_size(self.wanted_band)} leaves no time to stop a job",
                remedy="give at least 1MiB; 32MiB holds growth of 7 GB/s",
            )
        if not self.on_limit:
            raise Usage("--on-limit names no action", remedy="use one of warn, grow, move, leave")

    def band(self, limit: int) -> int:
        """Bytes below `limit` where growth is stopped."""
        return band_for(limit, self.wanted_band)

    @property
    def guarded(self) -> bool:
        """Whether anything is to be done before the kernel's own rule."""
        return self.on_limit[0] is not Action.LEAVE


@dataclass(frozen=True)
class SavePolicy:
    """When a job is saved without need, and what of its files is saved with it.

    `every` in seconds, None for never. `copy_files` in bytes: files that it rewrites in place are
    copied up to so much in all, so that it can go back to a checkpoint together with them.
    """

    every: float | None = None
    copy_files: int = GIB

    def __post_init__(self) -> None:
        if self.every is not None and self.every < SHORTEST_INTERVAL:
            raise Usage(
                "--save-every is too often to get any work done between",
                remedy=f"give at least {SHORTEST_INTERVAL:g}s",
            )


def parse_on_limit(text: str) -> tuple[Action, ...]:
    """The ladder of `grow,move`. Raises Usage for an unknown or repeated action."""
    actions: list[Action] = []
    for word in text.split(","):
        try:
            action = Action(word.strip())
        except ValueError:
            known = ", ".join(Action)
            raise Usage(f"--on-limit {word.strip()!r} is unknown", remedy=f"use {known}") from None
        if action in actions:
            raise Usage(f"--on-limit names {action} twice", remedy="name each action once")
        actions.append(action)
    return tuple(actions)
