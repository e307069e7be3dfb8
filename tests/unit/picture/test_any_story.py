"""Whatever a story holds, both pictures of it can be drawn."""

from __future__ import annotations

from unicodedata import category, east_asian_width
from xml.etree import ElementTree

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outgrow.picture import svg, terminal
from outgrow.picture.story import Limit, Mark, Pause, Point, Story, stretches, tidy

times = st.floats() | st.floats(0, 100) | st.integers(-2, 50).map(float)
sizes = st.integers() | st.integers(0, 1 << 40)
words = st.text(max_size=80) | st.text("\x1b\x00<&>\"'数\u0301\u202e\ud800", max_size=20)
stories = st.builds(
    Story,
    title=words,
    points=st.lists(st.builds(Point, times, sizes), max_size=30),
    limits=st.lists(st.builds(Limit, times, st.none() | sizes), max_size=6),
    marks=st.lists(
        st.builds(Mark, times, words, st.sampled_from(["move", "grow", "save", "killed", "end"])),
        max_size=12,
    ),
    pauses=st.lists(st.builds(Pause, times, times), max_size=5),
    duration=times,
    caption=words,
)
HUGE = Story("", [Point(1e300, 10**400)], [Limit(-1e300, -(10**400))], duration=1e300)


def width_of(line: str) -> int:
    """Counted apart from the code under test. Combining characters take no column."""
    seen = [ch for ch in line if not category(ch).startswith("M") or category(ch) == "Mc"]
    return sum(2 if east_asian_width(ch) in "WF" else 1 for ch in seen)


@given(stories, st.integers(-1, 130), st.integers(-1, 40), st.booleans())
@example(HUGE, 80, 12, True)
@settings(max_examples=300, deadline=None)
def test_every_line_of_a_chart_fits(story: Story, width: int, height: int, unicode: bool) -> None:
    lines = terminal.render(story, width, height, unicode=unicode)
    assert lines
    for line in lines:
        assert not any(category(ch)[0] == "C" for ch in line)
        assert width_of(line) <= max(width, 0)
        assert unicode or line.isascii()


@given(st.lists(stories, max_size=3))
@example([HUGE])
@settings(max_examples=200, deadline=None)
def test_every_svg_is_xml_of_numbers(drawn: list[Story]) -> None:
    text = svg.render(drawn)
    root = ElementTree.fromstring(text)  # noqa: S314 - our own output
    assert text.encode("utf-8")
    for element in root.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height"):
            float(element.get(name, "0").removesuffix("%"))
        assert "nan" not in element.get("points", "") + element.get("d", "")
        assert "inf" not in element.get("points", "") + element.get("d", "")


@given(stories)
def test_tidying_twice_changes_nothing_more(story: Story) -> None:
    assert tidy(tidy(story)) == tidy(story)


@given(stories)
def test_stretches_are_in_order_and_invent_no_size_above_the_peak(story: Story) -> None:
    story = tidy(story)
    seen = 0.0
    for stretch in stretches(story):
        for point in stretch.points:
            assert point.seconds >= seen
            seen = point.seconds
            assert 0 <= point.usage_bytes <= max(p.usage_bytes for p in story.points)
