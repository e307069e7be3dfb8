"""Each program undisturbed, moved at random instants, pushed over its limit, and killed and resumed
from its last save: the same answer each time."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.host.kit import MOVE, Outgrow, kill_the_job, running, wait_until
from tests.zoo.zoo import ZOO, Program

LONGEST = 120.0
_answers: dict[str, tuple[str, float]] = {}

pytestmark = [
    pytest.mark.parametrize("program", ZOO, ids=[program.name for program in ZOO]),
    pytest.mark.timeout(300),
]


@pytest.fixture
def answer(program: Program, tmp_path: Path) -> tuple[str, float]:
    """What it prints when nobody disturbs it, and how long that takes."""
    missing = program.missing()
    if missing:
        pytest.skip(missing)
    if program.name not in _answers:
        folder = tmp_path / "calm"
        folder.mkdir()
        began = time.monotonic()
        done = subprocess.run(
            program.command, cwd=folder, capture_output=True, text=True, timeout=LONGEST
        )
        assert done.returncode in (0, 5), done.stderr
        _answers[program.name] = done.stdout, time.monotonic() - began
    return _answers[program.name]


def started(outgrow: Outgrow, program: Program, *words: str) -> subprocess.Popen[bytes]:
    """Under outgrow, with its output in a file, as a batch job has it."""
    with (outgrow.directory / "answer").open("ab") as out:
        return outgrow.start("run", "--name", "j", *words, "--", *program.command, stdout=out)


def check(outgrow: Outgrow, process: subprocess.Popen[bytes], expected: str) -> None:
    _, err = process.communicate(timeout=LONGEST)
    assert (outgrow.directory / "answer").read_text() == expected, err.decode()
    assert process.returncode in (0, 5), err.decode()


@pytest.mark.parametrize("times", [1, 3])
def test_moved_at_random_instants(
    outgrow: Outgrow,
    program: Program,
    answer: tuple[str, float],
    chance: random.Random,
    times: int,
) -> None:
    expected, seconds = answer
    instants = sorted(chance.uniform(0.05, 0.6) * seconds for _ in range(times))
    with running(started(outgrow, program, "--memory", program.roomy)) as process:
        outgrow.wait_for("j", "running")
        began = time.monotonic()
        moved = 0
        for number, instant in enumerate(instants):
            time.sleep(max(0.0, instant - (time.monotonic() - began)))
            more = int(program.roomy.removesuffix("MiB").removesuffix("GiB")) + 1 + number
            unit = program.roomy[-3:]
            done = outgrow("move", "j", "--memory", f"{more}{unit}")
            if process.poll() is not None or "ended" in done.stderr:
                break
            assert done.returncode == 0, done.stderr
            moved += 1
        check(outgrow, process, expected)
    assert moved >= 1


def test_pushed_over_its_limit(
    outgrow: Outgrow, program: Program, answer: tuple[str, float]
) -> None:
    words = ("--memory", program.limit, "--next-size", "1.3x", "--band", "8MiB", *MOVE)
    with running(started(outgrow, program, *words)) as process:
        check(outgrow, process, answer[0])
    assert {save["outcome"] for save in outgrow.story("j")["saves"]} <= {"moved", "thawed"}


def test_killed_and_resumed_from_its_last_save(
    outgrow: Outgrow, program: Program, answer: tuple[str, float], chance: random.Random
) -> None:
    expected, seconds = answer
    words = ("--memory", program.roomy, "--save-every", "400ms")
    with running(started(outgrow, program, *words)) as process:
        outgrow.wait_for("j", "running", "frozen", "saving", "saved")
        saves = lambda: [s for s in outgrow.story("j")["saves"] if s["outcome"] == "saved"]  # noqa: E731
        wait_until(lambda: process.poll() is not None or saves())
        time.sleep(chance.uniform(0, 0.3) * seconds)
        kill_the_job(outgrow)
        process.wait(LONGEST)
    if process.returncode in (0, 5):
        pytest.fail(f"it ended before it could be killed: {seconds} s are too short")
    with (outgrow.directory / "answer").open("ab") as out:
        process = outgrow.start("resume", "j", stdout=out)
    with running(process):
        check(outgrow, process, expected)
