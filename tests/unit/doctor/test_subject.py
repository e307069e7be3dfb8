"""The process of a trial, left alone: every part of it works, and says so when it does not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from outgrow.agent.examination import subject

ARGV = [sys.executable, "-I", "-m", "outgrow.agent.examination.subject"]


@pytest.mark.parametrize("kinds", [[kind] for kind in subject.PARTS] + [list(subject.PARTS)])
def test_undisturbed_every_part_works(kinds: list[str]) -> None:
    run = subprocess.run([*ARGV, *kinds], input=b"go\n", capture_output=True, timeout=30)
    ready, answer = run.stdout.splitlines()
    assert ready == b"ready"
    assert json.loads(answer) == dict.fromkeys(kinds, "")
    assert run.returncode == 0


def test_it_ends_with_its_standard_input() -> None:
    run = subprocess.run([*ARGV, *subject.PARTS], input=b"", capture_output=True, timeout=30)
    assert (run.stdout, run.returncode) == (b"ready\n", 0)


def test_a_part_that_breaks_says_how() -> None:
    def broken() -> str:
        raise ConnectionResetError("Connection reset by peer")

    assert subject._tried(broken) == "ConnectionResetError: Connection reset by peer"
