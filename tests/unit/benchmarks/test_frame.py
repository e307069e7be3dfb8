from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import frame
import pytest
from frame import Goal, Report
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        pytest.param(frame.at_most("a", 10.0, 10), True, id="just"),
        pytest.param(frame.at_most("a", 10.1, 10), False, id="above"),
        pytest.param(frame.at_least("a", 100, 100), True, id="all"),
        pytest.param(frame.at_least("a", 99.9, 100), False, id="nearly all"),
        pytest.param(frame.exactly("a", 0, 0), True, id="none"),
        pytest.param(frame.exactly("a", 1, 0), False, id="one"),
    ],
)
def test_a_goal_is_met_or_not(goal: Goal, met: bool) -> None:
    assert goal.met is met


@pytest.mark.parametrize("kind", [frame.at_most, frame.at_least, frame.exactly])
def test_what_was_not_measured_is_not_met(kind: Callable[..., Goal]) -> None:
    assert kind("a", None, 0).met is False


def test_one_missed_goal_is_the_exit_status() -> None:
    met, missed = frame.exactly("a", 0, 0), frame.exactly("b", 1, 0)
    assert Report(goals=[met]).status == 0
    assert Report(goals=[met, missed]).status == 1


def test_json_has_the_form_of_all_benchmarks() -> None:
    report = Report([{"ms": 1.5, "note": None}], [frame.at_most("a", 1.5, 10)])
    assert json.loads(report.as_json()) == {
        "schema": 1,
        "rows": [{"ms": 1.5, "note": None}],
        "goals": [{"name": "a", "value": 1.5, "goal": "at most 10", "met": True}],
    }


@pytest.mark.parametrize(
    ("words", "printed", "written"),
    [
        pytest.param([], "the tables", False, id="tables"),
        pytest.param(["--json"], '"schema"', False, id="json"),
        pytest.param(["--json", "FILE"], "the tables", True, id="both"),
    ],
)
def test_where_the_json_goes(
    words: list[str],
    printed: str,
    written: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "found.json"
    given = [str(file) if word == "FILE" else word for word in words]
    report = Report(goals=[frame.exactly("a", 1, 0)])
    assert frame.publish(report, frame.options("").parse_args(given).json, "the tables") == 1
    assert printed in capsys.readouterr().out
    assert file.exists() is written
    assert not written or json.loads(file.read_text())["schema"] == 1


def is_free(file: Path) -> bool:
    with file.open("a") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_lock_is_held_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lock"
    seen: list[bool] = []
    monkeypatch.setattr("time.sleep", lambda _: seen.append(is_free(file)))
    with frame.Turns(file, longest=1e6) as turns:
        assert is_free(file)
        turns.next_one()
        turns.next_one()
        assert not is_free(file)
        assert seen == []
    assert is_free(file)
    with frame.Turns(file, longest=-1) as turns:
        turns.next_one()
        turns.next_one()
        assert seen == [True]
        assert not is_free(file)


def test_without_a_lock_there_are_no_turns() -> None:
    with frame.Turns(None) as turns:
        turns.next_one()


def test_the_filesystem_of_a_folder() -> None:
    assert frame.filesystem(Path("/proc/self")) == "proc"


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param([], 99, None, id="nothing"),
        pytest.param([7], 99, 7, id="one"),
        pytest.param(range(1, 101), 99, 99, id="of a hundred the ninety-ninth"),
        pytest.param(range(1, 101), 50, 50, id="the middle"),
        pytest.param([3, 1, 2], 100, 3, id="the highest"),
    ],
)
def test_percentile(values: list[float], percent: float, expected: float | None) -> None:
    assert frame.percentile(values, percent) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = frame.percentile(values, percent)
    assert found in values
    assert found is not None
    assert sum(value <= found for value in values) >= percent / 100 * len(values) * (1 - 1e-12)


def test_columns_of_a_table_are_as_wide_as_their_widest_text() -> None:
    assert frame.table(("name", "n"), [("a", "10"), ("longer", "2")]) == (
        "name     n\n------  --\na       10\nlonger   2"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (3, "3"), (3.0, "3"), (3.14159, "3.1"), (0.04, "0.0")]
)
def test_figures(value: float | None, text: str) -> None:
    assert frame.number(value) == text


def test_the_load_of_others_is_a_share() -> None:
    assert "% of the processors" in str(frame.Load())
