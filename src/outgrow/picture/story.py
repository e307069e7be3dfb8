"""What a picture tells: a job's memory, its limits, and what happened to it when.

A story may come from a journal that was cut short or a clock that jumped, so nothing here
insists on order or on sense: `tidy` makes any story drawable, and the other functions expect
a tidy one and say which lines there are to draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["move", "grow", "save", "killed", "end"]

NO_LIMIT = 1 << 60
"""A limit from here on is the kernel's way to write "none" (cgroup v1 shows 2**63 - 4096)."""

_MOST_BYTES = (1 << 63) - 1
_MOST_SECONDS = 1e10
"""Three centuries: later times are a broken clock, and are drawn at this one."""


@dataclass(frozen=True)
class Point:
    """The job used `usage_bytes` at this time."""

    seconds: float
    usage_bytes: int


@dataclass(frozen=True)
class Limit:
    """From this time on, this limit. None: from here on the job is not in memory, it is saved."""

    seconds: float
    limit_bytes: int | None


@dataclass(frozen=True)
class Mark:
    """Something that happened, in a few words."""

    seconds: float
    label: str
    kind: Kind


@dataclass(frozen=True)
class Pause:
    """The job stood still from `start` to `end`."""

    start: float
    end: float


@dataclass(frozen=True)
class Story:
    """One job from start to end. Times are seconds from its start."""

    title: str
    points: Sequence[Point]
    limits: Sequence[Limit] = ()
    marks: Sequence[Mark] = ()
    pauses: Sequence[Pause] = ()
    duration: float = 0.0
    caption: str = ""


@dataclass(frozen=True)
class Stretch:
    """Memory use without a break: at least one point, in the order of time.

    `lost` says that this work was done for nothing: the job was killed, and started again from
    before it.
    """

    points: tuple[Point, ...]
    lost: bool


@dataclass(frozen=True)
class Step:
    """A limit and how long it held."""

    start: float
    end: float
    limit_bytes: int


def tidy(story: Story) -> Story:
    """The same story in the order of time, without what cannot be drawn.

    Times that are no numbers are left out, negative ones count as 0, sizes are between 0 and
    2**63 - 1, and `duration` covers everything that happens.
    """
    points = sorted(
        (
            Point(_time(p.seconds), min(max(p.usage_bytes, 0), _MOST_BYTES))
            for p in story.points
            if not math.isnan(p.seconds)
        ),
        key=lambda p: p.seconds,
    )
    limits = sorted(
        (
            Limit(_time(step.seconds), _limit(step.limit_bytes))
            for step in story.limits
            if not math.isnan(step.seconds)
        ),
        key=lambda step: step.seconds,
    )
    marks = sorted(
        (replace(m, seconds=_time(m.seconds)) for m in story.marks if not math.isnan(m.seconds)),
        key=lambda m: m.seconds,
    )
    pauses = [
        Pause(*sorted((_time(p.start), _time(p.end))))
        for p in story.pauses
        if not math.isnan(p.start) and not math.isnan(p.end)
    ]
    duration = 0.0 if math.isnan(story.duration) else _time(story.duration)
    times = [point.seconds for point in points] + [step.seconds for step in limits]
    times += [mark.seconds for mark in marks] + [pause.end for pause in pauses]
    return replace(
        story,
        points=tuple(points),
        limits=tuple(limits),
        marks=tuple(marks),
        pauses=_merged(pauses),
        duration=max([duration, *times]),
    )


def peak(story: Story) -> int:
    return max((point.usage_bytes for point in story.points), default=0)


def gaps(story: Story) -> tuple[Pause, ...]:
    """When the job did not run: its pauses and the times in which it was saved, joined."""
    saved = [
        Pause(limit.seconds, end)
        for limit, end in zip(story.limits, _ends(story), strict=True)
        if limit.limit_bytes is None
    ]
    return _merged([*story.pauses, *saved])


def steps(story: Story) -> tuple[Step, ...]:
    """The limits with the time that each held. Without those that say "none"."""
    return tuple(
        Step(limit.seconds, end, limit.limit_bytes)
        for limit, end in zip(story.limits, _ends(story), strict=True)
        if limit.limit_bytes is not None and limit.limit_bytes < NO_LIMIT
    )


def stretches(story: Story) -> tuple[Stretch, ...]:
    """The memory that was used, broken where the job did not run or was killed.

    At a gap the last value before it and the first after it are held to its edges, at a kill
    the last value: samples never fall exactly there.
    """
    breaks = [*gaps(story), *(Pause(m.seconds, m.seconds) for m in _kills(story))]
    breaks.sort(key=lambda pause: (pause.start, pause.end))
    runs: list[list[Point]] = []
    left = list(story.points)
    for pause in breaks:
        before = [point for point in left if point.seconds <= pause.start]
        left = [p for p in left if p.seconds > pause.start and p.seconds >= pause.end]
        if before:
            runs.append([*before, replace(before[-1], seconds=pause.start)])
        if left and pause.end > pause.start:
            left.insert(0, replace(left[0], seconds=pause.end))
    if left:
        runs.append(left)
    lost = lost_times(story)
    for start, _ in lost:
        runs = [part for run in runs for part in _split(run, start)]
    return tuple(
        Stretch(
            tuple(run),
            any(start <= run[0].seconds and run[-1].seconds <= end for start, end in lost),
        )
        for run in runs
    )


def lost_times(story: Story) -> tuple[tuple[float, float], ...]:
    """From the last save (or the start) to each kill: work that had to be done again."""
    times = []
    safe = 0.0
    for mark in story.marks:
        if mark.kind == "killed":
            times.append((safe, mark.seconds))
        if mark.kind in ("killed", "save", "move"):
            safe = mark.seconds
    return tuple(times)


def value_at(points: Sequence[Point], seconds: float) -> int:
    """The use at a time within a stretch, on a straight line between two samples."""
    previous = points[0]
    for point in points:
        if point.seconds >= seconds:
            return _between(previous, point, seconds)
        previous = point
    return previous.usage_bytes


def thinned(points: Sequence[Point], at_most: int) -> list[Point]:
    """About `at_most` points at most that keep every high and low of the line."""
    if len(points) <= at_most:
        return list(points)
    size = math.ceil(2 * len(points) / max(at_most - 2, 2))
    kept = [points[0]]
    for start in range(0, len(points), size):
        bucket = points[start : start + size]
        extremes = (
            min(bucket, key=lambda p: p.usage_bytes),
            max(bucket, key=lambda p: p.usage_bytes),
        )
        kept.extend(sorted(extremes, key=lambda p: p.seconds))
    return [*kept, points[-1]]


def _split(run: list[Point], seconds: float) -> list[list[Point]]:
    if not run[0].seconds < seconds < run[-1].seconds:
        return [run]
    middle = Point(seconds, value_at(run, seconds))
    return [
        [*(p for p in run if p.seconds < seconds), middle],
        [middle, *(p for p in run if p.seconds > seconds)],
    ]


def _between(one: Point, other: Point, seconds: float) -> int:
    if other.seconds <= one.seconds:
        return other.usage_bytes
    part = (seconds - one.seconds) / (other.seconds - one.seconds)
    return one.usage_bytes + int(part * (other.usage_bytes - one.usage_bytes))


def _ends(story: Story) -> list[float]:
    """When each limit is followed by the next, the last one by the end of the story."""
    return [*(limit.seconds for limit in story.limits[1:]), story.duration][: len(story.limits)]


def _kills(story: Story) -> Iterable[Mark]:
    return (mark for mark in story.marks if mark.kind == "killed")


def _merged(pauses: Iterable[Pause]) -> tuple[Pause, ...]:
    joined: list[Pause] = []
    for pause in sorted(pauses, key=lambda pause: pause.start):
        if joined and pause.start <= joined[-1].end:
            joined[-1] = Pause(joined[-1].start, max(joined[-1].end, pause.end))
        else:
            joined.append(pause)
    return tuple(joined)


def _time(seconds: float) -> float:
    return float(min(max(seconds, 0.0), _MOST_SECONDS))


def _limit(limit_bytes: int | None) -> int | None:
    return None if limit_bytes is None else min(max(limit_bytes, 0), _MOST_BYTES)
