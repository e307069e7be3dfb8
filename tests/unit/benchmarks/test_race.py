"""Which races are run, and what is made of them."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import frame
import pytest
import streaming
from frame import Row
from racing import cases, tables
from racing.cases import MIB, STREAMS, Case, Way
from racing.rows import new_row

GRIDS = {
    "full": cases.full(),
    "quick": cases.quick(),
    "emulated": cases.emulated(),
    "emulated-quick": cases.emulated_quick(),
}


def row(case: Case | None = None, **values: Any) -> Row:
    case = case or Case(Way.GUARD, "anon", 128 * MIB)
    return {**new_row(case, 1), "saved": case.grows or None, "right": True, **values}


@pytest.mark.parametrize("name", GRIDS)
def test_no_case_is_run_twice(name: str) -> None:
    assert len(set(GRIDS[name])) == len(GRIDS[name])


def test_the_full_grid_is_the_whole_of_it() -> None:
    guard = [case for case in GRIDS["full"] if case.way is Way.GUARD]
    assert {case.processes for case in guard} == {1, 4, 16, 64}
    assert {case.limit for case in guard} >= {128 * MIB, 1024 * MIB, 8192 * MIB}
    assert {case.rate for case in guard} == {0.0, 0.1, 1.0}
    assert {case.huge for case in guard} == {False, True}
    wanted = {"anon", "file", "tmpfs", "read", "pipe", "socket", *STREAMS}
    for way in (Way.GUARD, Way.OUTGROW):
        assert {case.kind for case in GRIDS["full"] if case.way is way} >= wanted


@pytest.mark.parametrize("name", ["quick", "emulated", "emulated-quick"])
def test_the_other_grids_grow_in_every_way(name: str) -> None:
    assert {case.kind for case in GRIDS[name]} >= {"anon", "tmpfs", "read", "pipe", "socket"}
    assert any(case.streams for case in GRIDS[name])


@pytest.mark.parametrize(
    ("kind", "grows"),
    [("anon", True), ("pipe", True), ("tmpfs", True), ("file", False), ("read a file", False)],
)
def test_pages_of_files_are_not_growth(kind: str, grows: bool) -> None:
    case = Case(Way.GUARD, kind, 128 * MIB)
    assert case.grows is grows
    assert tables.grows(new_row(case, 1)) is grows


def goals(rows: list[Row], *, timed: bool = True) -> dict[str, tuple[float | None, bool]]:
    return {goal.name: (goal.value, goal.met) for goal in tables.goals(rows, timed=timed)}


LATENCY = "crossing to frozen, 99th percentile, ms"
STREAM = Case(Way.GUARD, "read a file", 128 * MIB)


@pytest.mark.parametrize(
    ("rows", "name", "expected"),
    [
        pytest.param([row(), row()], "saved, %", (100, True), id="all saved"),
        pytest.param([row(), row(saved=None)], "saved, %", (50, False), id="one never stopped"),
        pytest.param([row(), row(STREAM)], "saved, %", (100, True), id="a stream needs no save"),
        pytest.param([row(), row(killed=2)], "killed", (2, False), id="killed"),
        pytest.param([row(), row(right=False)], "right answer, %", (50, False), id="wrong"),
        pytest.param(
            [row(STREAM, false_alarm=True)], "false alarms", (1, False), id="a false alarm"
        ),
        pytest.param(
            [row(crossing_to_frozen_ms=ms) for ms in [1.0] * 99 + [50.0]],
            LATENCY,
            (1.0, True),
            id="one of a hundred is slow",
        ),
        pytest.param(
            [row(crossing_to_frozen_ms=ms) for ms in [1.0] * 98 + [50.0] * 2],
            LATENCY,
            (50.0, False),
            id="two of a hundred are",
        ),
        pytest.param([row()], LATENCY, (None, False), id="no times at all"),
    ],
)
def test_goals(rows: list[Row], name: str, expected: tuple[float | None, bool]) -> None:
    assert goals(rows)[name] == expected


def test_what_happens_without_outgrow_is_no_goal_of_ours() -> None:
    alone = Case(Way.KERNEL, "anon", 128 * MIB)
    assert goals([row(), row(alone, killed=1, right=False, saved=False)])["killed"] == (0, True)


def test_under_emulation_no_time_is_a_goal() -> None:
    assert LATENCY not in goals([row()], timed=False)


def test_all_tables_are_shown_and_what_went_wrong_is_told() -> None:
    slow = row(
        crossing_to_frozen_ms=12.0,
        event_to_frozen_ms=2.0,
        crossing_to_last_step_ms=10.5,
        overshoot_mib=31.0,
    )
    killed = row(Case(Way.KERNEL, "anon", 128 * MIB), killed=1, right=False, note="wait status 9")
    report = frame.Report([slow, row(), killed])
    report.goals = tables.goals(report.rows, timed=True)
    text = tables.show(report, "the footer")
    assert "Under the guard" in text
    assert "The kernel alone" in text
    assert "frozen after 12.0 ms (2.0 ms after the event; last step after 10.5 ms)" in text
    assert "wait status 9" in text
    assert text.endswith("the footer")


@pytest.mark.parametrize("way", STREAMS)
def test_streaming_jobs_know_the_checksum(way: str, tmp_path: Path) -> None:
    content = b"".join(index.to_bytes(8, "little") * (MIB // 8) for index in range(3))
    file = tmp_path / "stream"
    file.write_bytes(content)
    expected = bytes(3 * MIB) if way == "write a file" else content
    assert streaming.WAYS[way](file) == zlib.crc32(expected)
    assert [path.name for path in tmp_path.iterdir()] == ["stream"]
