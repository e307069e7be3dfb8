"""Which lines a story has to draw."""

from __future__ import annotations

import math

import pytest

from outgrow.picture.story import (
    NO_LIMIT,
    Limit,
    Mark,
    Pause,
    Point,
    Step,
    Story,
    gaps,
    lost_times,
    steps,
    stretches,
    thinned,
    tidy,
    value_at,
)


def points(*pairs: tuple[float, int]) -> tuple[Point, ...]:
    return tuple(Point(seconds, used) for seconds, used in pairs)


def test_tidy_puts_everything_in_the_order_of_time() -> None:
    story = tidy(
        Story(
            "t",
            points((2, 20), (1, 10)),
            [Limit(3, 5), Limit(0, 1)],
            [Mark(2, "b", "end"), Mark(1, "a", "save")],
            [Pause(5, 4), Pause(0, 1)],
        )
    )
    assert story.points == points((1, 10), (2, 20))
    assert story.limits == (Limit(0, 1), Limit(3, 5))
    assert [mark.label for mark in story.marks] == ["a", "b"]
    assert story.pauses == (Pause(0, 1), Pause(4, 5))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param(Point(math.nan, 1), (), id="time is no number"),
        pytest.param(Point(-3, 1), points((0, 1)), id="before the start"),
        pytest.param(Point(1, -1), points((1, 0)), id="negative use"),
        pytest.param(Point(1, 10**30), points((1, 2**63 - 1)), id="more than a machine can hold"),
        pytest.param(Point(math.inf, 1), points((1e10, 1)), id="never"),
    ],
)
def test_tidy_leaves_only_what_can_be_drawn(given: Point, kept: tuple[Point, ...]) -> None:
    assert tidy(Story("t", [given])).points == kept


@pytest.mark.parametrize(
    ("story", "duration"),
    [
        pytest.param(Story("t", [], duration=7), 7, id="as given"),
        pytest.param(Story("t", points((9, 1)), duration=7), 9, id="a later sample"),
        pytest.param(Story("t", [], [Limit(9, 1)], duration=7), 9, id="a later limit"),
        pytest.param(Story("t", [], (), [Mark(9, "", "end")]), 9, id="a later mark"),
        pytest.param(Story("t", [], (), (), [Pause(1, 9)]), 9, id="a later pause"),
        pytest.param(Story("t", [], duration=math.nan), 0, id="no number"),
        pytest.param(Story("t", [], duration=-1), 0, id="negative"),
    ],
)
def test_tidy_makes_the_duration_cover_everything(story: Story, duration: float) -> None:
    assert tidy(story).duration == duration


@pytest.mark.parametrize(
    ("limits", "pauses", "expected"),
    [
        pytest.param([], [], (), id="none"),
        pytest.param([], [Pause(1, 2)], (Pause(1, 2),), id="a pause"),
        pytest.param([Limit(0, 9), Limit(4, None)], [], (Pause(4, 10),), id="saved to the end"),
        pytest.param(
            [Limit(4, None), Limit(6, 9)], [Pause(3, 5)], (Pause(3, 6),), id="frozen, then saved"
        ),
        pytest.param(
            [Limit(4, None), Limit(6, 9)], [Pause(7, 8)], (Pause(4, 6), Pause(7, 8)), id="apart"
        ),
    ],
)
def test_gaps(limits: list[Limit], pauses: list[Pause], expected: tuple[Pause, ...]) -> None:
    assert gaps(tidy(Story("t", [], limits, (), pauses, 10))) == expected


def test_steps_hold_until_the_next_and_leave_out_saved_and_unlimited() -> None:
    limits = [Limit(0, 100), Limit(2, None), Limit(3, NO_LIMIT), Limit(5, 200)]
    assert steps(tidy(Story("t", [], limits, duration=9))) == (Step(0, 2, 100), Step(5, 9, 200))


class TestStretches:
    def test_one_without_a_break(self) -> None:
        (stretch,) = stretches(tidy(Story("t", points((0, 1), (5, 2)))))
        assert stretch.points == points((0, 1), (5, 2))
        assert not stretch.lost

    def test_values_are_held_to_the_edges_of_a_pause(self) -> None:
        story = tidy(Story("t", points((0, 1), (5, 5), (9, 9)), (), (), [Pause(6, 8)]))
        before, after = stretches(story)
        assert before.points == points((0, 1), (5, 5), (6, 5))
        assert after.points == points((8, 9), (9, 9))

    def test_samples_within_a_pause_are_not_drawn(self) -> None:
        story = tidy(Story("t", points((0, 1), (5, 7), (9, 9)), (), (), [Pause(4, 6)]))
        assert max(p.usage_bytes for p in stretches(story)[0].points) == 1

    def test_a_pause_before_the_first_sample_and_after_the_last_adds_nothing(self) -> None:
        story = tidy(Story("t", points((5, 1), (6, 2)), (), (), [Pause(7, 9)]))
        (stretch,) = stretches(story)
        assert stretch.points == points((5, 1), (6, 2), (7, 2))

    def test_work_before_a_kill_is_lost_and_work_after_it_is_not(self) -> None:
        marks = [Mark(5, "killed", "killed")]
        lost, again = stretches(tidy(Story("t", points((0, 1), (4, 4), (6, 0), (9, 3)), (), marks)))
        assert lost.lost
        assert lost.points == points((0, 1), (4, 4), (5, 4))
        assert not again.lost
        assert again.points == points((6, 0), (9, 3))

    def test_only_work_since_the_last_save_is_lost(self) -> None:
        marks = [Mark(4, "saved", "save"), Mark(8, "killed", "killed")]
        kept, lost = stretches(tidy(Story("t", points((0, 0), (8, 80)), (), marks)))
        assert not kept.lost
        assert kept.points[-1] == Point(4, 40)
        assert lost.lost
        assert lost.points[0] == Point(4, 40)


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        pytest.param([], (), id="nothing happened"),
        pytest.param([(3, "end")], (), id="ended well"),
        pytest.param([(3, "killed")], ((0, 3),), id="killed"),
        pytest.param([(3, "killed"), (7, "killed")], ((0, 3), (3, 7)), id="killed twice"),
        pytest.param([(2, "move"), (3, "killed")], ((2, 3),), id="moved before"),
        pytest.param([(2, "grow"), (3, "killed")], ((0, 3),), id="growing saves nothing"),
    ],
)
def test_lost_times(marks: list[tuple[float, str]], expected: object) -> None:
    story = Story("t", [], (), [Mark(at, "", kind) for at, kind in marks])  # type: ignore[arg-type]
    assert lost_times(tidy(story)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, 10), (0, 10), (1, 15), (2, 20), (3, 20), (99, 20)],
)
def test_value_at_is_on_a_straight_line(seconds: float, expected: int) -> None:
    assert value_at(points((0, 10), (2, 20)), seconds) == expected


class TestThinned:
    def test_few_points_stay_as_they_are(self) -> None:
        line = points((0, 1), (1, 2))
        assert thinned(line, 2) == list(line)

    def test_many_points_keep_their_order_ends_peak_and_trough(self) -> None:
        line = [Point(n, 100) for n in range(10_000)]
        line[4321] = Point(4321, 999)
        line[5555] = Point(5555, 1)
        kept = thinned(line, 100)
        assert len(kept) <= 100
        assert kept == sorted(kept, key=lambda p: p.seconds)
        assert {line[0], line[-1], line[4321], line[5555]} <= set(kept)
