"""The SVG: well-formed, self-contained, and showing what the stories tell."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from outgrow.picture.story import Limit, Mark, Pause, Point, Story
from outgrow.picture.svg import WIDTH, render

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"

KILLED = Story(
    "Without outgrow",
    [Point(0, 0), Point(10, 255 * MIB), Point(11, 0), Point(30, 600 * MIB)],
    [Limit(0, 256 * MIB), Limit(10.5, 1024 * MIB)],
    [Mark(10.5, "killed", "killed"), Mark(30, "done", "end")],
    [],
    30,
    caption="killed, and started again",
)
MOVED = Story(
    "With outgrow",
    [Point(0, 0), Point(10, 250 * MIB), Point(12, 250 * MIB), Point(20, 600 * MIB)],
    [Limit(0, 256 * MIB), Limit(10, None), Limit(12, 1024 * MIB)],
    [Mark(10, "moved", "move"), Mark(20, "done", "end")],
    [Pause(10, 12)],
    20,
    caption="carried on",
)


def parsed(*stories: Story) -> ElementTree.Element:
    return ElementTree.fromstring(render(stories))  # noqa: S314 - our own output


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if element.get("class") == name]


def test_titles_captions_marks_limits_and_axes_are_there() -> None:
    words = texts(parsed(KILLED, MOVED))
    for expected in (
        "Without outgrow",
        "killed, and started again",
        "With outgrow",
        "carried on",
        "killed",
        "moved",
        "limit 256 MiB",
        "limit 1 GiB",
        "512 MiB",
        "10 s",
        "paused 2.0 s",
        "memory in use",
        "memory in use, work lost",
    ):
        assert expected in words, expected


def test_the_legend_names_only_what_is_drawn() -> None:
    words = texts(parsed(Story("t", [Point(0, 1), Point(1, 2)])))
    assert "memory in use" in words
    assert not {"limit", "memory in use, work lost", "paused, its memory saved"} & set(words)


def test_panels_share_their_scales() -> None:
    """A job of four times the length and the memory has four times the width and the height."""
    small = Story("small", [Point(0, 0), Point(10, 200 * MIB)])
    large = Story("large", [Point(0, 0), Point(40, 800 * MIB)])
    (x0, y0, x1, y1), (u0, v0, u1, v1) = (
        [float(number) for number in re.split("[ ,]", line.get("points", ""))]
        for line in of_class(parsed(small, large), "usage")[:2]
    )
    assert x0 == u0
    assert (x1 - x0) * 4 == pytest.approx(u1 - u0, abs=0.5)
    assert (y1 - y0) * 4 == pytest.approx(v1 - v0, abs=0.5)


def test_work_before_a_kill_is_drawn_apart() -> None:
    root = parsed(KILLED)
    assert len(of_class(root, "lost-area")) == 2, "one in the panel, one in the legend"
    assert len(of_class(parsed(MOVED), "lost-area")) == 0


def test_a_raised_limit_is_joined_and_one_after_a_kill_or_a_gap_is_not() -> None:
    grown = Story("t", [Point(0, 1)], [Limit(0, 100), Limit(5, 200)], duration=9)
    paths = [of_class(parsed(story), "limit")[0].get("d", "") for story in (grown, KILLED, MOVED)]
    assert [path.count("M") for path in paths] == [1, 2, 2]


def test_a_short_pause_is_still_seen() -> None:
    story = Story("t", [Point(0, 1), Point(1e6, 1)], (), (), [Pause(5, 5.01)])
    assert float(of_class(parsed(story), "pause")[0].get("width", "0")) >= 2


def test_everything_lies_within_the_picture() -> None:
    root = parsed(KILLED, MOVED)
    height = float(root.get("height", "0"))
    for element in root.iter():
        for name, most in (("x", WIDTH), ("x1", WIDTH), ("x2", WIDTH), ("y", height)):
            assert 0 <= float(element.get(name, "0")) <= most, element.attrib


@pytest.mark.parametrize(
    ("stories", "words"),
    [
        pytest.param([], "no story to draw", id="no story"),
        pytest.param([Story("job 7", [])], "no memory samples", id="no samples"),
    ],
)
def test_nothing_to_draw_is_said(stories: list[Story], words: str) -> None:
    assert words in texts(parsed(*stories))


def test_no_script_no_link_no_font_from_elsewhere() -> None:
    text = render([KILLED, MOVED])
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    for forbidden in ("<script", "href", "@import", "@font-face", "foreignObject", " on"):
        assert forbidden not in re.sub(r">[^<]*<", "><", text), forbidden


HOSTILE = [
    "</text><script>alert(1)</script>",
    "\"><svg onload='x'>",
    "]]> <!-- & &amp; %s {}",
    "\x00\x1b[31m\ufffe\ud800 title",
    "'\"&<>",
]


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words(words: str) -> None:
    story = Story(words, [Point(0, 1)], (), [Mark(0, words, "move")], caption=words)
    root = parsed(story)
    harmless = parsed(Story("t", [Point(0, 1)], (), [Mark(0, "t", "move")], caption="t"))
    assert [element.tag for element in root.iter()] == [e.tag for e in harmless.iter()]


def test_close_marks_get_lanes_of_their_own() -> None:
    marks = [Mark(10 + n / 10, f"mark {n} with a label", "save") for n in range(4)]
    root = parsed(Story("t", [Point(0, 1), Point(20, 1)], (), marks))
    labels = of_class(root, "mark halo")
    assert [label.text for label in reversed(labels)] == [mark.label for mark in marks]
    assert len({label.get("y") for label in labels}) == 4


def test_a_mark_without_room_keeps_its_sign() -> None:
    marks = [Mark(10, f"mark {n}", "save") for n in range(30)]
    root = parsed(Story("t", [Point(0, 1), Point(20, 1)], (), marks))
    assert len(list(root.iter(f"{SVG}g"))) == 30
    assert len(of_class(root, "mark halo")) < 30


def test_many_samples_make_a_small_file() -> None:
    story = Story("t", [Point(n / 100, n * 7919 % 1000) for n in range(100_000)])
    assert len(render([story])) < 60_000
