"""Saying early that a job cannot be saved: when it starts, or opens what stands in the way, and not
when it is too late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from outgrow.agent.loop import Loop
from outgrow.core.errors import CannotSave, Transient
from outgrow.core.obstacles import Obstacle
from outgrow.kernel.obstacles import find_obstacles

_FIRST_LOOK = 1.0
_LONGEST_LOOK = 30.0
_SHARE = 100
"""A look may take one hundredth of the time until the next."""


class Preflight:
    """Looks at one job while it runs, now and then, beside the loop, whose guard must not wait.
    `pids` gives its processes; `found` is told of each new kind of obstacle, once."""

    def __init__(
        self, loop: Loop, pids: Callable[[], list[int]], found: Callable[[Obstacle], None]
    ) -> None:
        self._loop = loop
        self._pids = pids
        self._found = found
        self._known: set[str] = set()
        self._watch = 0

    def begin(self) -> None:
        """Look from now on: soon at first, and more and more seldom."""
        self.stop()
        self._loop.spawn(self._look(self._watch))

    def stop(self) -> None:
        """Look no more."""
        self._watch += 1

    async def _look(self, watch: int) -> None:
        pause = _FIRST_LOOK
        while True:
            await self._loop.sleep(pause)
            if watch != self._watch:
                return
            began = time.monotonic()
            obstacles = await self._loop.in_thread(self._obstacles)
            if watch != self._watch:
                return
            for obstacle in obstacles:
                if not obstacle.reason.passes and obstacle.reason.what not in self._known:
                    self._known.add(obstacle.reason.what)
                    self._found(obstacle)
            pause = max(min(2 * pause, _LONGEST_LOOK), _SHARE * (time.monotonic() - began))

    def _obstacles(self) -> list[Obstacle]:
        try:
            return find_obstacles(self._pids())
        except (OSError, CannotSave):  # it is gone; its end is on the way
            return []


def check(obstacles: Iterable[Obstacle], *, at_the_limit: bool) -> tuple[str, ...]:
    """Before a dump. What would be lost by it, which only a job that cannot wait may lose. Raises
    CannotSave for an obstacle, Transient for one that passes."""
    lost = []
    for obstacle in obstacles:
        reason = obstacle.reason
        if reason.lost and at_the_limit:
            lost.append(str(obstacle))
            continue
        kind = Transient if reason.passes else CannotSave
        raise kind(
            f"the job cannot be saved{' now' if reason.passes else ''}: {obstacle}",
            preserved="the job runs on",
            remedy=reason.remedy,
        )
    return tuple(lost)
