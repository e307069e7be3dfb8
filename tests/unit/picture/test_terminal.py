"""Charts in a terminal, as they are seen."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from outgrow.picture.story import Limit, Mark, Pause, Point, Story
from outgrow.picture.terminal import render

MIB = 1 << 20
ANSI = re.compile(r"\x1b\[[0-9;]*m")

MOVED = Story(
    "analysis.py",
    [Point(0, 0), Point(10, 240 * MIB), Point(12, 240 * MIB), Point(20, 480 * MIB)],
    [Limit(0, 256 * MIB), Limit(10, None), Limit(12, 512 * MIB)],
    [Mark(10, "moved to 512 MiB", "move"), Mark(20, "done", "end")],
    [Pause(10, 12)],
    20,
)


def chart(text: str) -> list[str]:
    return dedent(text).strip("\n").splitlines()


def test_a_move() -> None:
    assert render(MOVED, 50, height=6) == chart(
        """
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
    )


def test_the_same_in_ascii() -> None:
    assert render(MOVED, 50, height=6, unicode=False) == chart(
        """
        analysis.py
        512 MiB +                         -512 MiB--------
                |                                 .::|####
                |                           .:||##########
        256 MiB +--256 MiB-----------     ################
                |        .::||#######     ################
                |.::||###############     ################
              0 ++---------+---------+....-----+---------+
                 0         5 s       10 s      15 s   20 s
                                     ^ moved to 512 MiB
                                                    done *
        """
    )


def test_growing_in_place_steps_the_line() -> None:
    story = Story("", [Point(0, MIB), Point(9, MIB)], [Limit(0, 4 * MIB), Limit(5, 8 * MIB)])
    assert render(story, 40, height=6) == chart(
        """
        8 MiB ┤                  ╭─8 MiB────────
              │                  │
              │                  │
        4 MiB ┤──4 MiB───────────╯
              │
              │▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆
            0 └┬─────────────────┬──────────────
               0                 5 s
        """
    )


def test_shrinking_steps_it_down() -> None:
    story = Story("", [Point(0, MIB), Point(9, MIB)], [Limit(0, 8 * MIB), Limit(5, 4 * MIB)])
    drawn = "\n".join(render(story, 40, height=6))
    assert "╮" in drawn
    assert "╰" in drawn


def test_a_pause_shorter_than_a_column_is_still_a_gap() -> None:
    story = Story("", [Point(0, MIB), Point(1000, MIB)], (), (), [Pause(500, 500.01)])
    bottom = render(story, 60, height=4)[3]
    assert re.search(r"█ █", bottom)


def test_the_highest_sample_of_a_column_is_the_one_drawn() -> None:
    points = [Point(second / 100, MIB) for second in range(10_000)]
    points[5000] = Point(50, 100 * MIB)
    assert any("█" in line for line in render(Story("", points), 40, height=8)[:2])


def test_a_use_above_zero_is_never_invisible() -> None:
    story = Story("", [Point(0, 1), Point(9, 1)], [Limit(0, 1 << 40)])
    assert "▁" * 20 in render(story, 40)[-3]


@pytest.mark.parametrize(
    ("story", "width", "expected"),
    [
        pytest.param(Story("job 7", []), 40, "job 7: no memory samples", id="no samples"),
        pytest.param(Story("", []), 40, "no memory samples", id="no samples, no title"),
        pytest.param(Story("job 7", []), 12, "job 7: no m…", id="no samples, no room"),
        pytest.param(MOVED, 20, "analysis.py: peak 4…", id="no room for a chart"),
        pytest.param(MOVED, 0, "", id="no room at all"),
        pytest.param(MOVED, -5, "", id="less than no room"),
    ],
)
def test_one_line_where_there_is_no_chart(story: Story, width: int, expected: str) -> None:
    assert render(story, width) == [expected]


def test_a_single_sample_without_duration() -> None:
    lines = render(Story("once", [Point(0, 5 * MIB)]), 40, height=4)
    assert lines[0] == "once"
    assert sum("█" in line for line in lines) >= 3


def test_no_limit_at_all_does_not_flatten_the_chart() -> None:
    unlimited = Story("", [Point(0, 0), Point(9, 90 * MIB)], [Limit(0, (1 << 63) - 4096)])
    assert render(unlimited, 40) == render(Story("", unlimited.points), 40)


def test_marks_share_a_line_where_they_fit_and_say_how_many_do_not() -> None:
    points = [Point(0, MIB), Point(100, MIB)]
    apart = [Mark(10, "first", "save"), Mark(60, "second", "save")]
    assert any(
        "▲ first" in ln and "▲ second" in ln for ln in render(Story("", points, (), apart), 60)
    )
    crowd = [Mark(50, f"mark number {n} with a long label", "save") for n in range(30)]
    lines = render(Story("", points, (), crowd), 60)
    assert len([line for line in lines if "▲" in line]) == 8
    assert lines[-1].endswith("and 22 more")


def test_the_caption_is_wrapped_below() -> None:
    story = Story("", [Point(0, MIB)], caption="word " * 20)
    assert render(story, 40)[-3:] == [("word " * 8).strip()] * 2 + [("word " * 4).strip()]


def test_colour_changes_nothing_but_colour() -> None:
    coloured = render(MOVED, 60, color=True)
    assert [ANSI.sub("", line) for line in coloured] == render(MOVED, 60)
    assert any("\x1b[33m" in line for line in coloured)
    assert all(line.endswith("\x1b[0m") for line in coloured if "\x1b" in line)


def test_lost_work_has_its_own_colour() -> None:
    killed = Story("", [Point(0, MIB), Point(9, MIB)], (), [Mark(9, "killed", "killed")])
    assert any("\x1b[31m" in line and "█" in line for line in render(killed, 40, color=True))
    assert not any("\x1b[36m" in line for line in render(killed, 40, color=True))


def test_a_hostile_title_cannot_steer_the_terminal() -> None:
    story = Story("\x1b]0;pwned\x07\x1b[2J\u202e", [Point(0, 1)], (), [Mark(0, "\x1b[31m", "end")])
    assert not any("\x1b" in line or "\u202e" in line for line in render(story, 60))
