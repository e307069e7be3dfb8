"""Which work is run in which order, and what is made of the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import frame
import pytest
import working
from frame import Row
from overheads import cases, memory, runs, tables
from overheads.cases import Case, Way


def row(way: Way, repetition: int = 0, **values: Any) -> Row:
    return {**cases.new_row(Case("files", 1, repetition), way), **values}


def rows(ours: list[float], limited: float = 2.0, alone: float = 1.0) -> list[Row]:
    """One repetition for each of `ours`; each command takes 0.1 s more, outgrow's 0.5 s."""
    found = []
    for number, seconds in enumerate(ours):
        for way, took, more in (
            (Way.OUTGROW, seconds, 0.5),
            (Way.LIMITED, limited, 0.1),
            (Way.ALONE, alone, 0.1),
        ):
            found.append(
                row(
                    way,
                    number,
                    seconds=took,
                    processor_seconds=took,
                    whole_seconds=took + more,
                    saves=0 if way is Way.OUTGROW else None,
                )
            )
    return found


def goals(of: list[Row]) -> dict[str, tuple[float | None, bool]]:
    return {goal.name: (goal.value, goal.met) for goal in tables.goals(of)}


LIMIT_ALONE = "files: slower than limit alone, %"
ALONE = "files: slower than alone, %"
SAVES = "saves, of which there is no need"


@pytest.mark.parametrize(
    ("found", "name", "value", "met"),
    [
        pytest.param(rows([2.01]), LIMIT_ALONE, 0.5, True, id="just"),
        pytest.param(rows([2.02]), LIMIT_ALONE, 1.0, False, id="slower"),
        pytest.param(rows([1.98]), LIMIT_ALONE, -1.0, True, id="faster, by chance"),
        pytest.param(rows([2.0, 2.0, 9.0]), LIMIT_ALONE, 0.0, True, id="one is disturbed"),
        pytest.param(rows([1.0]), ALONE, 0.0, True, id="as alone"),
        pytest.param(rows([2.0]), ALONE, 100.0, False, id="not as alone"),
        pytest.param(rows([1.0])[:1], ALONE, None, False, id="nothing to compare with"),
        pytest.param(rows([1.0]), SAVES, 0, True, id="left in peace"),
        pytest.param([row(Way.OUTGROW, saves=1)], SAVES, 1, False, id="saved for nothing"),
        pytest.param([row(Way.OUTGROW, note="no")], "jobs that failed", 1, False, id="failed"),
    ],
)
def test_goals(found: list[Row], name: str, value: float | None, met: bool) -> None:
    got, is_met = goals(found)[name]
    assert got == (value if value is None else pytest.approx(value, abs=1e-9))
    # 2.01 / 2 is a bit above 1.005 in binary: what counts is that it is met or not by more.
    assert is_met is met or got == pytest.approx(tables.BOUND)


def test_repetitions_are_compared_each_with_its_own() -> None:
    found = [
        *(row(Way.ALONE, 0, seconds=1.0), row(Way.OUTGROW, 0, seconds=1.1)),
        *(row(Way.ALONE, 1, seconds=2.0), row(Way.OUTGROW, 1, seconds=2.0)),
        row(Way.OUTGROW, 2, seconds=7.0),
    ]
    assert tables.slower_by(found, Way.ALONE) == [pytest.approx(10), 0]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "-"),
        ([1.0], "-"),
        ([-1.0, 0.0, 1.0], "-0.5 to +0.5"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], "+2.0 to +4.0"),
    ],
)
def test_the_middle_half(values: list[float], text: str) -> None:
    assert tables.quartiles(values) == text


@pytest.mark.parametrize("quick", [True, False])
def test_all_work_is_run_in_all_ways(quick: bool) -> None:
    plan = cases.plan(quick=quick, repetitions=6)
    assert len(set(plan)) == len(plan)
    assert {case.kind for case in plan} == {*working.KINDS}
    assert all({*case.order} == {*Way} for case in plan)


def test_each_order_has_its_turn() -> None:
    orders = {Case("files", 1, repetition).order for repetition in range(6)}
    assert len(orders) == 6


def test_all_tables_are_shown_and_what_failed_is_told() -> None:
    around = [
        {"way": "outgrow run", "process": name, "pss_bytes": size << 20,
         "private_bytes": 1 << 20, "rss_bytes": 9 << 20}
        for name, size in (("keeper", 20), ("PID 1 of the job", 5))
    ]  # fmt: skip
    report = frame.Report([*rows([2.0, 2.02]), row(Way.ALONE, 2, note="it was killed"), *around])
    report.goals = tables.goals(report.rows)
    text = tables.show(report, "the footer")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    wanted = "files 3 1 2 2.010 101 +100.5 to +101.5 0.50 +0.3 to +0.8 0.50 400"
    assert wanted in lines, text
    assert "together 25.0 2.0 18.0" in lines
    assert "alone: files: it was killed" in lines
    assert text.endswith("the footer")


def test_memory_of_a_process() -> None:
    rollup = (
        "55d0-7ffc ---p 00000000 00:00 0  [rollup]\nRss:  100 kB\nPss:  60 kB\nPss_Anon: 50 kB\n"
        "Private_Clean:  10 kB\nPrivate_Dirty:  40 kB\n"
    )
    assert memory.held(rollup) == {"Pss": 60 << 10, "Rss": 100 << 10, "Private": 50 << 10}


@pytest.mark.parametrize("output", ["", "OK 1.0", "no 1.0 2.0", "OK 1 2 3"])
def test_a_job_that_says_something_else_has_failed(output: str) -> None:
    with pytest.raises(RuntimeError, match="the job said"):
        runs.told(output)


@pytest.mark.parametrize("kind", working.KINDS)
def test_the_work_is_done_and_timed(kind: str, tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", working.__file__, kind, "--amount", "1"]
    done = subprocess.run(
        [*words, "--folder", str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    seconds, processor = runs.told(done.stdout)
    assert seconds > 0
    assert processor > 0
    assert list(tmp_path.iterdir()) == []
