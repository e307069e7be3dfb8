"""Where the words of marks go so that they can be read: lanes above a plot.

From each label a leader goes down to its time. No label covers another, and no leader crosses
a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outgrow.picture.story import Mark
from outgrow.picture.text import columns, cut, plain

MOST_LANES = 6
FONT_SIZE = 12.5
_LONGEST = 60
_BOLD = 1.06
_ASIDE = 6


@dataclass(frozen=True)
class Label:
    """The words of a mark, from `start` to `end`, beside its leader at `x`. Lane 0 is lowest."""

    mark: Mark
    text: str
    x: float
    start: float
    end: float
    lane: int


def placed(marks: Sequence[tuple[float, Mark]], left: float, right: float) -> list[Label]:
    """Labels for marks at these x, all between `left` and `right`.

    First, from the last mark to the first, those that can stand to the right of their leaders:
    of two that are close, the earlier goes to the higher lane. Then, the other way round, those
    that must stand to the left. A mark without room in any lane gets no label.
    """
    labels: list[Label] = []
    waiting: list[tuple[float, Mark]] = []
    for x, mark in reversed(marks):
        text = _words(mark)
        start = x + _ASIDE
        end = start + about_width(text, FONT_SIZE) * _BOLD
        if text and not _place(_lanes(mark, text, x, (start, end)), (left, right), labels):
            waiting.append((x, mark))
    for x, mark in reversed(waiting):
        text = _words(mark)
        end = x - _ASIDE
        start = end - about_width(text, FONT_SIZE) * _BOLD
        _place(_lanes(mark, text, x, (start, end)), (left, right), labels)
    return labels


def about_width(text: str, size: float) -> float:
    """About how wide a text is: fonts differ, so and most are a little narrower."""
    return columns(text) * size * 0.5


def _words(mark: Mark) -> str:
    return cut(plain(mark.label), _LONGEST)


def _lanes(mark: Mark, text: str, x: float, ends: tuple[float, float]) -> Iterable[Label]:
    return (Label(mark, text, x, *ends, lane) for lane in range(MOST_LANES))


def _place(lanes: Iterable[Label], edges: tuple[float, float], labels: list[Label]) -> bool:
    for label in lanes:
        inside = edges[0] <= label.start and label.end <= edges[1]
        if inside and all(_apart(label, other) for other in labels):
            labels.append(label)
            return True
    return False


def _apart(one: Label, other: Label) -> bool:
    if one.lane == other.lane:
        return one.start > other.end + 8 or other.start > one.end + 8
    low, high = (one, other) if one.lane < other.lane else (other, one)
    return not low.start - 4 < high.x < low.end + 4
