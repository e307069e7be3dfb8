"""Stories as one SVG file: a panel each, one below the other, all on the same scales.

The file is self-contained (no scripts, no fonts, no links) and brings its own white ground, so
that it looks the same in a README on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from outgrow.core.units import format_seconds, format_size
from outgrow.picture.axis import size_labels, size_ticks, time_labels, time_ticks
from outgrow.picture.labels import Label, about_width, placed
from outgrow.picture.story import (
    Mark,
    Pause,
    Step,
    Story,
    Stretch,
    gaps,
    peak,
    steps,
    stretches,
    thinned,
    tidy,
    value_at,
)
from outgrow.picture.text import cut, plain, wrapped

WIDTH = 960
PLOT_HEIGHT = 190
MARGIN = 28
GUTTER = 74
"""Left of the plot, for the sizes."""
LANE = 19
"""One line of mark labels above the plot."""

_FONT = "-apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"
_INK = "#1f2328"
_MUTED = "#59636e"
_USAGE = "#0969da"
_LOST = "#cf222e"
_LIMIT = "#9a6700"
_MARKS = {
    "move": "#1a7f37",
    "grow": "#1a7f37",
    "save": "#0550ae",
    "killed": "#cf222e",
    "end": _INK,
}

_STYLE = f"""
text {{ font-family: {_FONT}; font-size: 12.5px; fill: {_INK}; }}
.title {{ font-size: 16px; font-weight: 600; }}
.caption {{ font-size: 13.5px; fill: {_MUTED}; }}
.tick {{ fill: {_MUTED}; }}
.grid {{ stroke: #d1d9e0; stroke-width: 1; opacity: .7; }}
.axis {{ stroke: #818b98; stroke-width: 1; }}
.usage {{ fill: none; stroke: {_USAGE}; stroke-width: 2; stroke-linejoin: round; }}
.usage-area {{ fill: url(#usage); }}
.lost {{ fill: none; stroke: {_LOST}; stroke-width: 2; stroke-linejoin: round; }}
.lost-area {{ fill: url(#lost); }}
.limit {{ fill: none; stroke: {_LIMIT}; stroke-width: 2; stroke-dasharray: 7 4; }}
.limit-label {{ fill: {_LIMIT}; font-weight: 600; }}
.pause {{ fill: url(#saved); }}
.pause-label {{ fill: {_MUTED}; font-size: 11.5px; }}
.leader {{ stroke-width: 1; }}
.mark {{ font-weight: 600; }}
.halo {{ stroke: #fff; stroke-width: 4px; stroke-linejoin: round; paint-order: stroke; }}
"""

_DEFINITIONS = f"""<defs>
<linearGradient id="usage" x1="0" y1="0" x2="0" y2="1">
<stop offset="0" stop-color="{_USAGE}" stop-opacity=".34"/>
<stop offset="1" stop-color="{_USAGE}" stop-opacity=".10"/>
</linearGradient>
<linearGradient id="lost" x1="0" y1="0" x2="0" y2="1">
<stop offset="0" stop-color="{_LOST}" stop-opacity=".26"/>
<stop offset="1" stop-color="{_LOST}" stop-opacity=".08"/>
</linearGradient>
<pattern id="saved" width="7" height="7" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)">
<rect width="7" height="7" fill="#f6f8fa"/><rect width="2" height="7" fill="#d1d9e0"/>
</pattern>
</defs>"""


@dataclass(frozen=True)
class _Scale:
    """What all panels share."""

    span: float
    top: float

    def x(self, seconds: float) -> float:
        return MARGIN + GUTTER + seconds / self.span * (WIDTH - 2 * MARGIN - GUTTER)

    def height(self, size: float) -> float:
        return size / self.top * PLOT_HEIGHT


def render(stories: Sequence[Story]) -> str:
    """One SVG document. Without stories, or for one without samples, it says so in words."""
    drawn = [tidy(story) for story in stories]
    limits = [step.limit_bytes for story in drawn for step in steps(story)]
    scale = _Scale(
        span=max((story.duration for story in drawn), default=0.0) or 1.0,
        top=max([*map(peak, drawn), *limits, 1]) * 1.12,
    )
    body: list[str] = []
    y = float(MARGIN)
    for story in drawn:
        lines, y = _panel(story, scale, y)
        body += lines
        y += 26
    if not drawn:
        body.append(_text(MARGIN, y + 14, "no story to draw", "caption"))
        y += 40
    lines, y = _legend(drawn, y)
    body += lines
    height = round(y + MARGIN - 8)
    names = "; ".join(filter(None, (plain(story.title) for story in drawn)))
    about = f"Memory use against its limit over time. {names}".strip()
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-label={quoteattr(about)}>',
            f"<title>{escape(about)}</title>",
            f"<style>{_STYLE}</style>",
            _DEFINITIONS,
            f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10" '
            'fill="#fff" stroke="#d1d9e0"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _panel(story: Story, scale: _Scale, y: float) -> tuple[list[str], float]:
    """The panel's elements, and where the next one may begin."""
    out = []
    title = plain(story.title)
    if title:
        out.append(_text(MARGIN, y + 14, cut(title, 96), "title"))
        y += 24
    for line in wrapped(plain(story.caption), 128, 3):
        out.append(_text(MARGIN, y + 12, line, "caption"))
        y += 19
    if not story.points:
        out.append(_text(MARGIN, y + 16, "no memory samples", "caption"))
        return out, y + 26
    labels = placed([(scale.x(m.seconds), m) for m in story.marks], MARGIN, WIDTH - 8)
    y += 8 + LANE * (1 + max((label.lane for label in labels), default=-1))
    bottom = y + PLOT_HEIGHT
    lines = stretches(story)
    out += _grid(scale, bottom)
    out += [part for gap in gaps(story) for part in _pause(gap, scale, bottom)]
    for stretch in lines:
        out += _usage(stretch, scale, bottom)
    out += _limit_line(story, scale, bottom)
    out += _marks(story.marks, labels, lines, scale, bottom)
    out += _limit_labels(steps(story), scale, bottom)
    return out, bottom + 24


def _grid(scale: _Scale, bottom: float) -> Iterator[str]:
    left, right = scale.x(0), scale.x(scale.span)
    sizes = size_ticks(scale.top, 5)
    for size, label in zip(sizes, size_labels(sizes), strict=True):
        y = bottom - scale.height(size)
        style = "grid" if size else "axis"
        yield _line((left, y), (right, y), style)
        yield _text(left - 10, y + 4, label, "tick", anchor="end")
    times = time_ticks(scale.span, 8)
    for time, label in zip(times, time_labels(times), strict=True):
        x = scale.x(time)
        yield _line((x, bottom), (x, bottom + 4), "axis")
        yield _text(x, bottom + 18, label, "tick", anchor="middle")


def _pause(gap: Pause, scale: _Scale, bottom: float) -> Iterator[str]:
    left, right = scale.x(gap.start), scale.x(gap.end)
    middle, width = (left + right) / 2, max(right - left, 2)
    words = f"paused {format_seconds(gap.end - gap.start)}"
    yield (
        f'<rect class="pause" x="{middle - width / 2:.1f}" y="{bottom - PLOT_HEIGHT:.1f}" '
        f'width="{width:.1f}" height="{PLOT_HEIGHT}"><title>{escape(words)}</title></rect>'
    )
    if width < 17:
        return
    where = (middle + 4, bottom - 10)
    if width > about_width(words, 11.5) + 8:
        yield _text(middle, bottom - 10, words, "pause-label halo", anchor="middle")
    else:
        turn = f' transform="rotate(-90 {where[0]:.1f} {where[1]:.1f})"'
        yield _text(*where, words, "pause-label halo", more=turn)


def _usage(stretch: Stretch, scale: _Scale, bottom: float) -> Iterator[str]:
    points = thinned(stretch.points, 1200)
    path = " ".join(
        f"{scale.x(point.seconds):.1f},{bottom - scale.height(point.usage_bytes):.1f}"
        for point in points
    )
    first, last = scale.x(points[0].seconds), scale.x(points[-1].seconds)
    style = "lost" if stretch.lost else "usage"
    if last - first < 1:
        height = max(scale.height(max(point.usage_bytes for point in points)), 2)
        yield _line((first, bottom), (first, bottom - height), style)
        return
    yield (
        f'<polygon class="{style}-area" points="{first:.1f},{bottom:.1f} {path} '
        f'{last:.1f},{bottom:.1f}"/>'
    )
    yield f'<polyline class="{style}" points="{path}"/>'


def _limit_line(story: Story, scale: _Scale, bottom: float) -> Iterator[str]:
    """One path. A limit is joined to the one that it raises, not to one under which it died."""
    path = []
    end: float | None = None
    kills = {mark.seconds for mark in story.marks if mark.kind == "killed"}
    for step in steps(story):
        y = bottom - scale.height(step.limit_bytes)
        command = "L" if end == step.start and end not in kills else "M"
        path.append(f"{command}{scale.x(step.start):.1f} {y:.1f}H{scale.x(step.end):.1f}")
        end = step.end
    if path:
        yield f'<path class="limit" d="{"".join(path)}"/>'


def _limit_labels(limits: Sequence[Step], scale: _Scale, bottom: float) -> Iterator[str]:
    for step in limits:
        words = f"limit {format_size(step.limit_bytes)}"
        left, right = scale.x(step.start), scale.x(step.end)
        if right - left > about_width(words, 13) + 12:
            y = bottom - scale.height(step.limit_bytes) - 7
            yield _text(left + 8, y, words, "limit-label halo")


def _marks(
    marks: Sequence[Mark],
    labels: Sequence[Label],
    lines: Sequence[Stretch],
    scale: _Scale,
    bottom: float,
) -> Iterator[str]:
    top = bottom - PLOT_HEIGHT
    for label in labels:
        colour = _MARKS.get(label.mark.kind, _INK)
        y = top - 9 - label.lane * LANE
        yield _line((label.x, y - 10), (label.x, bottom), "leader", f' stroke="{colour}"')
        x, anchor = (label.start, "start") if label.start > label.x else (label.end, "end")
        fill = f' style="fill:{colour}"'
        yield _text(x, y, label.text, "mark halo", anchor=anchor, more=fill)
    for mark in marks:
        y = bottom - scale.height(_usage_at(lines, mark.seconds))
        yield _sign(mark, scale.x(mark.seconds), y)


def _usage_at(lines: Sequence[Stretch], seconds: float) -> int:
    """The use at a mark. Between two stretches, the end of the earlier one."""
    before = [line for line in lines if line.points[0].seconds <= seconds]
    return value_at(before[-1].points, seconds) if before else 0


def _sign(mark: Mark, x: float, y: float) -> str:
    colour = _MARKS.get(mark.kind, _INK)
    name = f"<title>{escape(plain(mark.label))}</title>"
    at = f'transform="translate({x:.1f} {y:.1f})"'
    if mark.kind == "killed":
        cross = 'd="M-3.2-3.2 3.2 3.2M-3.2 3.2 3.2-3.2" stroke="#fff" stroke-width="2"'
        inner = f'<circle r="7.5" fill="{colour}"/><path {cross} stroke-linecap="round"/>'
    elif mark.kind == "end":
        tick = 'd="M-3.4.2-1 2.8 3.6-2.6" fill="none" stroke="#fff" stroke-width="2"'
        inner = f'<circle r="7.5" fill="{colour}"/><path {tick} stroke-linecap="round"/>'
    else:
        inner = f'<circle r="5.5" fill="#fff" stroke="{colour}" stroke-width="2.5"/>'
    return f"<g {at}>{name}{inner}</g>"


def _legend(stories: Sequence[Story], y: float) -> tuple[list[str], float]:
    """Only what the panels show."""
    lines = [stretch for story in stories for stretch in stretches(story)]
    entries = []
    if any(not stretch.lost for stretch in lines):
        entries.append(("memory in use", "usage"))
    if any(stretch.lost for stretch in lines):
        entries.append(("memory in use, work lost", "lost"))
    if any(steps(story) for story in stories):
        entries.append(("limit", "limit"))
    if any(gaps(story) for story in stories):
        entries.append(("paused, its memory saved", "pause"))
    out = []
    x = float(MARGIN + GUTTER)
    for words, style in entries:
        if style == "pause":
            out.append(f'<rect class="pause" x="{x:.1f}" y="{y - 1:.1f}" width="22" height="12"/>')
        elif style == "limit":
            out.append(_line((x, y + 5), (x + 22, y + 5), "limit"))
        else:
            box = f'x="{x:.1f}" y="{y:.1f}" width="22" height="11"'
            out.append(f'<rect class="{style}-area" {box}/>')
            out.append(_line((x, y), (x + 22, y), style))
        out.append(_text(x + 30, y + 10, words, "tick"))
        x += 30 + about_width(words, 12.5) + 26
    return out, y + (20 if entries else 0)


def _text(
    x: float, y: float, words: str, style: str, *, anchor: str = "start", more: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}"'
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" {place}{side}{more}>{escape(words)}</text>'


def _line(one: tuple[float, float], other: tuple[float, float], style: str, more: str = "") -> str:
    ends = f'x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{other[0]:.1f}" y2="{other[1]:.1f}"'
    return f'<line class="{style}" {ends}{more}/>'
