"""A story as a small chart for a terminal.

analysis.py
512 MiB ┤                         ─512 MiB────────
        │                                 ▁▂▃▅▆▇██
        │                           ▁▂▄▅▆█████████
256 MiB ┤──256 MiB───────────     ▇███████████████
        │        ▁▂▃▄▅▆▇█████     ████████████████
        │▁▂▃▄▅▆▇█████████████     ████████████████
      0 └┬─────────┬─────────┬╌╌╌╌─────┬─────────┬
         0         5 s       10 s      15 s   20 s
                             ▲ moved to 512 MiB
                                            done ■
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from outgrow.core.units import format_size
from outgrow.picture.axis import size_labels, size_ticks, time_labels, time_ticks
from outgrow.picture.canvas import Canvas
from outgrow.picture.story import (
    Mark,
    Pause,
    Point,
    Step,
    Story,
    gaps,
    peak,
    steps,
    stretches,
    tidy,
    value_at,
)
from outgrow.picture.text import columns, cut, plain, wrapped

_LEAST_PLOT = 12
_MOST_ROWS = 200
_MOST_MARK_ROWS = 8


@dataclass(frozen=True)
class _Glyphs:
    blocks: str
    line: str
    up: str
    rise: tuple[str, str]
    fall: tuple[str, str]
    axis: str
    corner: str
    x_tick: str
    y_tick: str
    y_line: str
    gap: str
    mark: str
    killed: str
    end: str
    ellipsis: str


_UNICODE = _Glyphs(
    " ▁▂▃▄▅▆▇█", "─", "│", ("╯", "╭"), ("╰", "╮"), "─", "└", "┬", "┤", "│", "╌", "▲", "✗", "■", "…"
)
_ASCII = _Glyphs(
    " .::||###",
    "-",
    "|",
    ("+", "+"),
    ("+", "+"),
    "-",
    "+",
    "+",
    "+",
    "|",
    ".",
    "^",
    "x",
    "*",
    "...",
)


def render(
    story: Story, width: int, height: int = 12, color: bool = False, unicode: bool = True
) -> list[str]:
    """Lines of at most `width` columns: title, `height` rows of chart, axis, marks, caption.

    From about 24 columns on it is a chart, below that a line with the peak. A story without
    samples is a line that says so. `color` adds ANSI colours, which take no columns.
    """
    story = tidy(story)
    glyphs = _UNICODE if unicode else _ASCII
    canvas = Canvas(max(width, 0), unicode, glyphs.ellipsis)
    title = plain(story.title)
    named = f"{title}: " if title else ""
    if not story.points:
        canvas.write(canvas.add(), 0, f"{named}no memory samples")
        return canvas.lines(color)
    rows = min(max(height, 2), _MOST_ROWS)
    limits = steps(story)
    top = max([peak(story), *(step.limit_bytes for step in limits), 1]) * 1.08
    ticks = size_ticks(top, max(1, min(5, rows // 2)))
    labels = size_labels(ticks)
    gutter = max(map(columns, labels)) + 2
    if width - gutter < _LEAST_PLOT:
        canvas.write(canvas.add(), 0, f"{named}peak {format_size(peak(story))}")
        return canvas.lines(color)

    if title:
        canvas.write(canvas.add(), 0, title, "title")
    plot = _Plot(
        story, first=len(canvas.rows), left=gutter, width=width - gutter, rows=rows, top=top
    )
    for _ in range(rows):
        canvas.write(canvas.add(), gutter - 1, glyphs.y_line, "axis")
    for tick, label in zip(ticks[1:], labels[1:], strict=True):
        canvas.write(plot.row(tick), 0, label.rjust(gutter - 2), "axis")
        canvas.write(plot.row(tick), gutter - 1, glyphs.y_tick, "axis")
    _draw_usage(canvas, plot, glyphs)
    _draw_limits(canvas, plot, limits, glyphs)
    _draw_axis(canvas, plot, labels[0], glyphs)
    _draw_marks(canvas, plot, glyphs)
    for line in wrapped(plain(story.caption), width, 4, glyphs.ellipsis):
        canvas.write(canvas.add(), 0, line)
    return canvas.lines(color)


class _Plot:
    """Which column and row of the canvas is which time and size."""

    def __init__(
        self, story: Story, *, first: int, left: int, width: int, rows: int, top: float
    ) -> None:
        self.story = story
        self.first = first
        self.left = left
        self.width = width
        self.rows = rows
        self.top = top
        self.span = story.duration or 1.0
        self.gaps = {column for gap in gaps(story) for column in self._covered(gap)}

    def columns(self, start: float, end: float) -> range:
        """All columns that these times touch."""
        return range(self.column(start), self.column(end) + 1)

    def column(self, seconds: float) -> int:
        return self.left + min(int(seconds / self.span * self.width), self.width - 1)

    def time(self, column: int) -> float:
        """When a column begins."""
        return (column - self.left) / self.width * self.span

    def row(self, size: float) -> int:
        up = min(int(size / self.top * self.rows), self.rows - 1)
        return self.first + self.rows - 1 - up

    def filled(self, size: int) -> Iterator[tuple[int, int]]:
        """The rows that a use of this size fills, each with how many eighths of it."""
        eighths = max(round(size / self.top * self.rows * 8), min(size, 1))
        row = self.first + self.rows - 1
        while eighths > 0:
            yield row, min(eighths, 8)
            eighths -= 8
            row -= 1

    def _covered(self, gap: Pause) -> Iterable[int]:
        """The columns of which a gap takes the middle, or the one that it is in: never none."""
        first = round(gap.start / self.span * self.width)
        last = round(gap.end / self.span * self.width)
        if first >= last:
            return [self.column(gap.start)]
        return range(self.left + first, self.left + min(last, self.width))


def _draw_usage(canvas: Canvas, plot: _Plot, glyphs: _Glyphs) -> None:
    for stretch in stretches(plot.story):
        times = [point.seconds for point in stretch.points]
        for column in plot.columns(times[0], times[-1]):
            if column in plot.gaps:
                continue
            used = _highest(stretch.points, times, plot.time(column), plot.time(column + 1))
            for row, eighths in plot.filled(used):
                style = "lost" if stretch.lost else "usage"
                canvas.write(row, column, glyphs.blocks[eighths], style)


def _highest(points: Sequence[Point], times: list[float], start: float, end: float) -> int:
    """The highest use in a column's time. What a stretch only touches counts as its edge."""
    start = min(max(start, times[0]), times[-1])
    end = min(max(end, times[0]), times[-1])
    inside = points[bisect_left(times, start) : bisect_right(times, end)]
    around = points[max(0, bisect_left(times, start) - 1) : bisect_right(times, end) + 1]
    edges = (value_at(around, start), value_at(around, end))
    return max(*edges, *(point.usage_bytes for point in inside))


def _draw_limits(canvas: Canvas, plot: _Plot, limits: Sequence[Step], glyphs: _Glyphs) -> None:
    rows: dict[int, int] = {}
    for step in limits:
        for column in plot.columns(step.start, step.end):
            if column not in plot.gaps:
                rows[column] = plot.row(step.limit_bytes)
    for column, row in rows.items():
        canvas.write(row, column, glyphs.line, "limit")
        before = rows.get(column - 1, row)
        if before == row:
            continue
        upper, lower = min(row, before), max(row, before)
        low, high = glyphs.rise if row < before else glyphs.fall
        for between in range(upper + 1, lower):
            canvas.write(between, column, glyphs.up, "limit")
        canvas.write(lower, column, low, "limit")
        canvas.write(upper, column, high, "limit")
    for step in limits:
        label = format_size(step.limit_bytes)
        row = plot.row(step.limit_bytes)
        start = plot.column(step.start) + 2
        if all(rows.get(column) == row for column in range(start, start + len(label) + 1)):
            canvas.write(row, start, label, "limit")


def _draw_axis(canvas: Canvas, plot: _Plot, zero: str, glyphs: _Glyphs) -> None:
    axis, below = canvas.add(), canvas.add()
    canvas.write(axis, 0, zero.rjust(plot.left - 2), "axis")
    canvas.write(axis, plot.left - 1, glyphs.corner, "axis")
    for column in plot.columns(0, plot.span):
        canvas.write(axis, column, glyphs.gap if column in plot.gaps else glyphs.axis, "axis")
    ticks = time_ticks(plot.span, max(1, min(8, plot.width // 9)))
    free = 0
    for tick, label in zip(ticks, time_labels(ticks), strict=True):
        column = plot.column(tick)
        canvas.write(axis, column, glyphs.x_tick, "axis")
        start = min(column, canvas.width - len(label))
        if start >= free:
            canvas.write(below, start, label, "axis")
            free = start + len(label) + 1


def _draw_marks(canvas: Canvas, plot: _Plot, glyphs: _Glyphs) -> None:
    """Each mark under its time, its label to the right or, where that is too long, to the left."""
    taken: list[int] = []
    first = len(canvas.rows)
    marks = plot.story.marks
    for number, mark in enumerate(marks):
        start, text = _mark_text(mark, plot.column(mark.seconds), canvas, glyphs)
        row = next((r for r, end in enumerate(taken) if end < start), len(taken))
        if row == _MOST_MARK_ROWS:
            canvas.write(canvas.add(), 0, f"and {len(marks) - number} more".rjust(canvas.width))
            return
        if row == len(taken):
            canvas.add()
            taken.append(0)
        canvas.write(first + row, start, text, mark.kind)
        taken[row] = start + columns(text)


def _mark_text(mark: Mark, column: int, canvas: Canvas, glyphs: _Glyphs) -> tuple[int, str]:
    sign = {"killed": glyphs.killed, "end": glyphs.end}.get(mark.kind, glyphs.mark)
    label = canvas.drawable(plain(mark.label))
    right, left = canvas.width - column - 2, column - 1
    if columns(label) <= right or right >= left:
        return column, f"{sign} {cut(label, right, glyphs.ellipsis)}".rstrip()
    label = cut(label, left, glyphs.ellipsis)
    return column - 1 - columns(label), f"{label} {sign}"
