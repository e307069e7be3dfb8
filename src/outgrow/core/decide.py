"""What to do when the kernel says that a job is near its limit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outgrow.core.policy import Action, LimitPolicy
from outgrow.core.sample import MemoryReading
from outgrow.core.sizing import next_limit


class Crossing(Enum):
    """What a crossing of the guard's threshold turns out to be."""

    FALSE = "false"
    """Usage fell below the threshold again: nothing to do but wait for the next event."""
    CACHE = "cache"
    """Clean page cache covers what is too much: have the kernel drop it, the job runs on."""
    GROWTH = "growth"
    """The job's own memory: freeze at once."""


def judge_crossing(reading: MemoryReading, limit: int, band: int) -> Crossing:
    """Tell growth from page cache.

    Cache counts as the cause only when dropping it leaves the job a quarter of a band below the
    mark, so that a job that streams files pays for few crossings.
    """
    if reading.usage < limit - band:
        return Crossing.FALSE
    if reading.usage - reading.clean_cache <= _low_enough(limit, band):
        return Crossing.CACHE
    return Crossing.GROWTH


def cache_target(kept: int, limit: int, band: int) -> int:
    """Bytes to which page cache is dropped where `kept` bytes are none: a whole band below the
    mark if there is that much. Asked for more, the kernel would try again and again."""
    return max(limit - 2 * band, kept + band // 8)


def only_dirty_cache(reading: MemoryReading, limit: int, band: int) -> bool:
    """Whether a job frozen at its limit holds it up with unwritten file pages alone.

    Then the kernel writes them back while the job stands still, and it runs on: no move.
    """
    return reading.own <= _low_enough(limit, band)


def _low_enough(limit: int, band: int) -> int:
    return limit - band - band // 4


@dataclass(frozen=True)
class Grow:
    """Raise the limit in place to `limit` bytes."""

    limit: int


@dataclass(frozen=True)
class Move:
    """Save, release, and resume under `limit` bytes."""

    limit: int


@dataclass(frozen=True)
class Keep:
    """Save one last time and keep the checkpoint: the ladder has ended, for `reason`."""

    reason: str


@dataclass(frozen=True)
class Warn:
    """Send `signal`, and let the job use its band for `grace` seconds."""

    signal: int
    grace: float


@dataclass(frozen=True)
class Leave:
    """The kernel's own rule stands, for `reason`."""

    reason: str


Decision = Grow | Move | Keep | Warn | Leave


@dataclass(frozen=True)
class Situation:
    """What the ladder looks at: `limit` now, `room` on this host for more (bytes), the rungs that
    were tried in vain at this crossing, and the largest limit this host could ever give."""

    limit: int
    room: int
    tried: frozenset[Action]
    host_cap: int


def next_rung(policy: LimitPolicy, now: Situation) -> Decision:
    """The first action of the policy's ladder that can hold in this situation."""
    cap = min(policy.max_memory, now.host_cap)
    wanted = next_limit(policy.next_size, now.limit, cap)
    for action in policy.on_limit:
        if action in now.tried:
            continue
        if action is Action.WARN:
            return Warn(policy.warn_signal, policy.warn_grace)
        if action is Action.LEAVE:
            return Leave("the policy says so")
        if action is Action.GROW and wanted is not None and wanted - now.limit <= now.room:
            return Grow(wanted)
        if action is Action.MOVE:
            if wanted is not None:
                return Move(wanted)
            return Keep(_why_no_more(policy, now))
    return Leave("no action of the ladder can hold")


def _why_no_more(policy: LimitPolicy, now: Situation) -> str:
    if now.limit >= policy.max_memory:
        return "it reached --max-memory"
    return "this host has no more memory to give"
