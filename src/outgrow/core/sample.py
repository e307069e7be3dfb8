"""What was seen of a job's memory at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryReading:
    """A cgroup's memory, in bytes, the same words for cgroup v1 and v2.

    `clean_cache` is file-backed page cache that the kernel can drop at once; `dirty_cache` is
    waiting for, or under, writeback. What is left of `usage` is the job's own: anonymous, shared
    and kernel memory.
    """

    usage: int
    clean_cache: int = 0
    dirty_cache: int = 0

    @property
    def own(self) -> int:
        """Bytes that only the job itself can give back."""
        return max(0, self.usage - self.clean_cache - self.dirty_cache)


@dataclass(frozen=True)
class Sample:
    """Memory in use at a time: `at` in seconds since the epoch, the others in bytes."""

    at: float
    usage: int
    limit: int


class SampleClock:
    """When to look again: often while memory moves, seldom while it does not.

    From 0.1 s, doubling up to 5 s while the usage stays within 2 % of the limit of what it was.
    """

    SHORTEST = 0.1
    LONGEST = 5.0

    def __init__(self) -> None:
        self.interval = self.SHORTEST
        self._last = 0

    def after(self, usage: int, limit: int) -> float:
        """Seconds until the next look, given what was just seen."""
        moved = abs(usage - self._last) > max(limit // 50, 1)
        self._last = usage
        self.interval = self.SHORTEST if moved else min(self.interval * 1.5, self.LONGEST)
        return self.interval


def thin(samples: list[Sample], most: int) -> list[Sample]:
    """At most `most` samples that keep the shape: of each stretch the highest, and the last."""
    if len(samples) <= most or most < 2:
        return samples
    step = (len(samples) - 1) / (most - 1)
    kept = []
    for index in range(most - 1):
        start = int(index * step)
        stretch = samples[start : max(int((index + 1) * step), start + 1)]
        kept.append(max(stretch, key=lambda sample: sample.usage))
    kept.append(samples[-1])
    return kept
