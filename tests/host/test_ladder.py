"""What happens at the limit, rung by rung."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.host.kit import MOVE, Outgrow, grow, python, read_line, running


def test_grow_raises_the_limit_in_place(outgrow: Outgrow) -> None:
    done = outgrow(
        "run", "--memory", "64MiB", "--max-memory", "400MiB", "--on-limit", "grow",
        "--next-size", "+64MiB", "--name", "j", "--", *grow(150),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    story = outgrow.story("j")
    (incarnation,) = story["incarnations"]
    assert incarnation["first_limit_bytes"] == 64 << 20
    assert incarnation["limit_bytes"] > 150 << 20
    assert story["saves"] == []


def test_by_default_it_grows_before_it_moves(outgrow: Outgrow) -> None:
    done = outgrow("run", "--memory", "64MiB", "--name", "j", "--", *grow(150))
    assert (done.returncode, done.stdout) == (0, "OK\n")
    assert len(outgrow.story("j")["incarnations"]) == 1


def test_leave_leaves_it_to_the_kernel(outgrow: Outgrow) -> None:
    done = outgrow(
        "run", "--memory", "64MiB", "--on-limit", "leave", "--name", "j", "--", *grow(150)
    )
    assert done.returncode == 128 + signal.SIGKILL
    story = outgrow.story("j")
    assert (story["state"], story["exit_status"]) == ("ended", 137)
    assert "kernel killed" in story["reason"]


def test_grow_alone_ends_with_the_kernels_rule_at_the_cap(outgrow: Outgrow) -> None:
    done = outgrow(
        "run", "--memory", "64MiB", "--max-memory", "96MiB", "--on-limit", "grow", "--name", "j",
        "--", *grow(150),
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGKILL
    assert "kernel killed" in outgrow.story("j")["reason"]


def test_at_the_cap_the_job_is_saved_and_kept_and_goes_on_with_more(outgrow: Outgrow) -> None:
    target = outgrow.directory / "out"
    with target.open("wb") as stdout:
        done = outgrow(
            "run", "--memory", "64MiB", "--max-memory", "96MiB", *MOVE, "--name", "j", "--",
            *grow(150), stdout=stdout,
        )  # fmt: skip
    assert done.returncode == 75
    assert "outgrow resume" in done.stderr
    assert "--max-memory" in done.stderr
    job = outgrow.jobs()["j"]
    assert job["state"] == "saved"
    assert outgrow.cgroups(job["id"]) == []

    too_small = outgrow("resume", "j", "--memory", "48MiB")
    assert too_small.returncode == 2
    assert "cannot hold" in too_small.stderr
    assert outgrow.jobs()["j"]["state"] == "saved"

    assert outgrow("resume", "j", "--memory", "400MiB").returncode == 0
    assert target.read_text() == "OK\n"
    story = outgrow.story("j")
    assert (story["state"], story["exit_status"], story["work_lost_seconds"]) == ("ended", 0, 0)


WARNED = """
import signal, sys, time
blocks, warned = [], []
signal.signal(signal.SIGUSR1, lambda *_: warned.append(len(blocks)))
while len(blocks) < 150 and not warned:
    blocks.append(bytearray(b"x" * (1 << 20)))
    time.sleep(0.005)
at = len(blocks)
kept = [bytearray(b"x" * (1 << 20)) for _ in range(8)]  # inside the band
print("warned at", at, flush=True)
if "more" in sys.argv:
    sys.stdin.readline()
    blocks += [bytearray(b"x" * (1 << 20)) for _ in range(120)]
    print("grew to", len(blocks))
"""


def test_warn_gives_the_job_its_band_and_a_grace_period(outgrow: Outgrow) -> None:
    done = outgrow(
        "run", "--memory", "100MiB", "--on-limit", "warn", "--warn-signal", "USR1",
        "--name", "j", "--", *python(WARNED),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 30 < int(done.stdout.split()[-1]) < 100
    assert len(outgrow.story("j")["incarnations"]) == 1


def test_after_the_grace_period_comes_the_next_rung(outgrow: Outgrow) -> None:
    words = (
        "run", "--memory", "100MiB", "--on-limit", "warn,move", "--warn-signal", "USR1",
        "--warn-grace", "500ms", "--name", "j", "--", *python(WARNED, "more"),
    )  # fmt: skip
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        assert read_line(process).startswith("warned at")
        found = outgrow.wait_for("j", "running")
        while found["incarnations"] < 2:  # still above the band when the grace ends: moved
            found = outgrow.wait_for("j", "running")
        out, _ = process.communicate(b"go\n", timeout=60)
    assert process.returncode == 0
    assert out.decode().startswith("grew to")
    assert len(outgrow.story("j")["incarnations"]) >= 2


@pytest.mark.parametrize(
    "words",
    [
        ["--memory", "512"],
        ["--memory", "0MiB"],
        ["--memory", "-1GiB"],
        ["--memory", "512MB"],
        ["--memory", "9999999999GiB"],
        ["--memory", "8MiB"],
        ["--memory", "lots"],
        ["--memory", "64MiB", "--max-memory", "32MiB"],
        ["--max-memory", "32MiB"],
        ["--memory", "64MiB", "--next-size", "1x"],
        ["--memory", "64MiB", "--next-size", "512"],
        ["--memory", "64MiB", "--band", "1KiB"],
        ["--memory", "64MiB", "--on-limit", "explode"],
        ["--memory", "64MiB", "--on-limit", "move,move"],
        ["--memory", "64MiB", "--warn-signal", "NONE"],
        ["--memory", "64MiB", "--label", "novalue"],
        ["--user", "nobody-of-that-name"],
        ["--no-such-option"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    outgrow: Outgrow, words: list[str]
) -> None:
    done = outgrow("run", *words, "--", "touch", "ran")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert not (outgrow.directory / "ran").exists()


def test_a_limit_below_what_the_program_needs_to_start(outgrow: Outgrow) -> None:
    """It is moved until it fits, like every other growth, from the first instant on."""
    program = "b = bytearray(b'x') * (40 << 20); print(len(b) >> 20)"
    done = outgrow("run", "--memory", "16MiB", *MOVE, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "40\n"), done.stderr
    assert len(outgrow.story("j")["incarnations"]) >= 2
