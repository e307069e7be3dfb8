"""The race at the limit on cgroup v2: a part of `benchmarks/race.py --vm`, without its times."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from .conftest import CHECKOUT
from .machine import Machine

sys.path.insert(0, str(CHECKOUT / "benchmarks"))

from frame import Report
from racing import machine as there


@pytest.fixture(scope="module")
def report(machine: Machine) -> Report:
    """One boot for all of it."""
    found, _ = there.race(replace(machine, files=there.files()), "--quick")
    return found


@pytest.mark.parametrize("name", ["saved, %", "killed", "right answer, %", "false alarms"])
def test_goals_are_met_under_emulation_too(report: Report, name: str) -> None:
    (goal,) = (goal for goal in report.goals if goal.name == name)
    missed = [row for row in report.rows if not row["right"] or row["killed"] or row["note"]]
    assert goal.met, (goal, missed)


def test_it_ran_on_cgroup_v2(report: Report) -> None:
    assert {row["cgroup"] for row in report.rows} == {2}
