"""Which saves are measured, what the job of them holds, and what is made of the rows."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import frame
import holding
import pytest
from dumping import cases, held, tables
from dumping.cases import GIB, MIB, Case, Way
from frame import Row
from holding import BLOCK, Board, Held

CASE = Case(GIB, "random")


def row(way: Way, case: Case = CASE, **values: Any) -> Row:
    return {**cases.new_row(case, way), "right": True, **values}


def rows(
    save: float = 2.0, move: float = 1.0, verified: float = 1.5, *, right: bool = True
) -> list[Row]:
    """Under outgrow as given; CRIU takes 1 s, 2 s with fsync, and 1 s; plain bytes 2 s and 0.5."""
    journal = [0.001, 0.5, 0.4, 0.1, 0.0, 0.9, 1.9]
    return [
        row(Way.OUTGROW, save_seconds=save, resume_seconds=move, journal=journal, right=right),
        row(Way.OUTGROW, save_seconds=save, verified_resume_seconds=verified, journal=journal),
        row(Way.CRIU, save_seconds=1.0, durable_seconds=2.0, resume_seconds=1.0),
        row(Way.PLAIN, save_seconds=0.5, durable_seconds=2.0, resume_seconds=0.5),
    ]


@pytest.mark.parametrize("grid", [cases.full(), cases.quick()], ids=["full", "quick"])
def test_no_case_is_run_twice_and_each_three_times(grid: list[Case]) -> None:
    assert len(set(grid)) == len(grid)
    assert {case.repetition for case in grid} == {0, 1, 2}


def test_the_full_grid_is_the_whole_of_it() -> None:
    assert {case.size / GIB for case in cases.full()} == {0.25, 0.5, 1, 2, 4, 8}
    assert {(case.size < 4 * GIB, case.kind) for case in cases.full()} == {
        (True, "text"),
        (True, "random"),
        (False, "random"),
    }


def test_every_size_is_a_whole_number_of_blocks() -> None:
    assert all(case.size % BLOCK == 0 for case in [*cases.full(), *cases.quick()])


def test_each_way_is_first_in_turn() -> None:
    orders = [Case(GIB, "text", repetition).order for repetition in range(3)]
    assert {order[0] for order in orders} == {*Way}
    assert all({*order} == {*Way} for order in orders)


def goals(of: list[Row]) -> dict[str, tuple[float | None, bool]]:
    return {goal.name: (goal.value, goal.met) for goal in tables.goals(of)}


RAW = "save: × criu dump, which makes nothing durable"
DURABLE = "save: × criu dump and fsync of its images"
MOVE = "resume of a move: × criu restore"
VERIFIED = "outgrow resume, every byte verified: × criu restore"
RIGHT = "memory as it was, %"


@pytest.mark.parametrize(
    ("found", "name", "expected"),
    [
        pytest.param(rows(save=1.1), RAW, (1.1, True), id="as fast as bare"),
        pytest.param(rows(save=1.2), RAW, (1.2, False), id="slower than bare"),
        pytest.param(rows(save=2.2), DURABLE, (1.1, True), id="as fast, durable"),
        pytest.param(rows(save=2.3), DURABLE, (1.15, False), id="slower, durable"),
        pytest.param(rows(move=1.15), MOVE, (1.15, True), id="comes back as fast"),
        pytest.param(rows(move=1.2), MOVE, (1.2, False), id="comes back slower"),
        pytest.param(rows(verified=1.0), VERIFIED, (1.0, True), id="verified as fast"),
        pytest.param(rows(verified=1.5), VERIFIED, (1.5, False), id="verified slower"),
        pytest.param(rows(), RIGHT, (100, True), id="all is as it was"),
        pytest.param(rows(right=False), RIGHT, (75, False), id="something is not"),
        pytest.param(rows()[:2], RAW, (None, False), id="nothing to compare with"),
        pytest.param([], RIGHT, (None, False), id="nothing at all"),
    ],
)
def test_goals(found: list[Row], name: str, expected: tuple[float | None, bool]) -> None:
    value, met = goals(found)[name]
    assert (value, met) == (expected[0] and pytest.approx(expected[0]), expected[1])


def test_the_worst_size_is_the_goals_figure() -> None:
    small = [{**one, "bytes": GIB // 4} for one in rows(save=3.0)]
    assert goals([*rows(), *small])[RAW][0] == pytest.approx(3.0)


def test_a_size_that_failed_is_no_met_goal() -> None:
    failed = row(Way.OUTGROW, Case(8 * GIB, "random"), right=False, note="the disk is full")
    assert goals([*rows(save=1.0), failed])[RAW] == (None, False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([None], None), ([3.0], 3.0), ([1.0, 9.0, 2.0], 2.0), ([1.0, None, 2.0], 1.5)],
)
def test_the_middle_of_what_was_measured(
    values: list[float | None], expected: float | None
) -> None:
    measured = [row(Way.CRIU, save_seconds=value) for value in values]
    assert tables.middle(measured, "save_seconds", Way.CRIU) == expected
    assert tables.middle(measured, "save_seconds", Way.PLAIN) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(3.0, 2.0, 1.5), (None, 2.0, None), (3.0, None, None), (3.0, 0.0, None)],
)
def test_a_ratio_needs_both(one: float | None, other: float | None, expected: float | None) -> None:
    assert tables.ratio(one, other) == expected


def test_small_ones_stand_first_and_text_before_random() -> None:
    given = [
        row(Way.PLAIN, Case(size, kind)) for size in (2 * GIB, GIB) for kind in ("random", "text")
    ]
    found = [(group[0]["bytes"], group[0]["kind"]) for group in tables.by_case(given)]
    assert found == [
        *((GIB, "text"), (GIB, "random")),
        *((2 * GIB, "text"), (2 * GIB, "random")),
    ]


def test_all_tables_are_shown_and_what_failed_is_told() -> None:
    failed = row(Way.PLAIN, right=False, note="No space left on device")
    report = frame.Report([*rows(), failed])
    report.goals = tables.goals(report.rows)
    text = tables.show(report, "the footer")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 GiB random 1 2 1 2 2 2 1 1" in lines
    assert "1 GiB random 1 1 1 0.50 1 2 1.50 1.50 3" in lines
    assert "1 GiB random - 1 0.50 0.40 0.10 0.90" in lines
    assert "plain: 1 GiB of random: No space left on device" in lines
    assert text.endswith("the footer")


@pytest.mark.parametrize("kind", holding.KINDS)
def test_what_is_held_is_found_and_one_changed_byte_too(kind: str) -> None:
    held_memory = Held(kind, 3 * BLOCK // MIB)
    assert held_memory.is_right()
    held_memory.memory[-1] ^= 1
    assert not held_memory.is_right()


def test_no_two_pages_are_alike() -> None:
    memory = Held("random", 3 * BLOCK // MIB).memory
    pages = {memory[at : at + 4096] for at in range(0, len(memory), 4096)}
    assert len(pages) == len(memory) // 4096


def test_the_board_tells_the_longest_pause(tmp_path: Path) -> None:
    board = Board.make(tmp_path / "board")
    for wait in (0.001, 0.05, 0.001):
        board.alive()
        time.sleep(wait)
    board.alive()
    before, after = board.pause()
    assert after - before >= 0.05e9
    assert board.last > after
    board.forget()
    board.alive()
    assert board.pause()[1] == board.last


def test_the_job_runs_and_answers(tmp_path: Path) -> None:
    board = Board.make(tmp_path / "board")
    words = held.command(Case(2 * BLOCK, "text"), tmp_path / "board")
    process = subprocess.Popen(words)
    try:
        held.wait_until(lambda: board.ready, "its start", 30)
        assert held.find(words) == process.pid
        assert held.check(board)
        death = held.Death(process.pid)
    finally:
        process.kill()
        process.wait()
    assert death.wait() >= board.last


def test_nothing_is_waited_for_without_end() -> None:
    with pytest.raises(RuntimeError, match="the moon did not happen"):
        held.wait_until(lambda: False, "the moon", 0.01)


def test_a_process_that_is_not_there_is_not_found() -> None:
    assert held.find([sys.executable, "no such command line"]) == 0
