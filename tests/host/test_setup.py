"""`make setup`: it finds nothing to do, and has a CRIU that works here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from outgrow.engines.criu.find import find_criu
from tests.host.kit import ROOT

STAMPS = ROOT / ".venv" / "outgrow-setup"


def test_the_criu_in_use_saves_and_resumes_everything_that_is_tried() -> None:
    trial = subprocess.run(
        [sys.executable, "-m", "outgrow.agent.examination"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    report = json.loads(trial.stdout)
    assert report["criu"] == find_criu()
    assert report["tried"] is True
    assert not any(report["survived"].values()), report
    assert trial.returncode == 0


def test_the_trial_says_what_fails() -> None:
    trial = subprocess.run(
        [sys.executable, "-m", "outgrow.agent.examination", "/bin/false"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    report = json.loads(trial.stdout)
    assert (report["criu"], report["tried"], report["version"]) == ("/bin/false", True, "")
    assert all(report["survived"].values())
    assert trial.returncode == 1
    assert trial.stderr == ""


@pytest.mark.skipif(
    not (STAMPS / "criu").is_file(), reason="this checkout was not set up: run `make setup`"
)
def test_a_second_set_up_finds_nothing_to_do() -> None:
    assert run(["make", "setup"]).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in STAMPS.iterdir()}
    done = run(["make", "setup"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in STAMPS.iterdir()} == before


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["scripts/setup.sh", "everything"], "knows python, host, vm and zoo"),
        (["scripts/test.sh", "everything"], "there is no tier 'everything'"),
        (["make", "test", "TIER=everything"], "there is no tier 'everything'"),
    ],
)
def test_a_word_that_is_not_known(argv: list[str], says: str) -> None:
    done = run(argv)
    assert done.returncode != 0
    assert says in done.stderr


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run it in the checkout, as if no `make` had started these tests."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
