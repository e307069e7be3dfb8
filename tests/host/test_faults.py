"""Whatever dies when: the job runs on or can be resumed, with the right answer, and nothing is left
frozen."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.host.kit import MOVE, Outgrow, python, read_line, running, wait_until

STEPS = [
    "frozen", "dumping", "dumped", "committing", "committed", "releasing", "released", "resuming",
    "restoring", "resumed",
]  # fmt: skip
"""Every step of the rescue, as Rescue.step names them."""

PATIENT = """
import hashlib, os, sys, time
blocks = [hashlib.sha256(str(i).encode()).digest() * (1 << 15) for i in range(100)]
print("full", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
digest = hashlib.sha256()
for block in blocks:
    digest.update(block)
digest = digest.hexdigest()
with open("answer", "a") as file:
    file.write(digest + "\\n")
print(digest)
"""
"""Holds 100 MiB until it is told to go on, then writes its one answer, once."""
LIMIT = ("--memory", "200MiB", "--max-memory", "1GiB")


def _start(outgrow: Outgrow, fault: str = "") -> subprocess.Popen[bytes]:
    process = outgrow.start(
        "run", *LIMIT, *MOVE, "--name", "j", "--", *python(PATIENT), fault=fault
    )
    assert read_line(process) == "full\n"
    outgrow.wait_for("j", "running")
    return process


def _answer() -> str:
    blocks = [hashlib.sha256(str(i).encode()).digest() * (1 << 15) for i in range(100)]
    return hashlib.sha256(b"".join(blocks)).hexdigest()


def _nothing_stands(outgrow: Outgrow, patience: float = 2.0, guarded: bool = False) -> None:
    """Within the watchdog's two seconds (and a little for the look itself) nothing is frozen, and
    nothing held at its limit either unless outgrow is there to guard it."""
    job = outgrow.jobs()["j"]["id"]
    end = time.monotonic() + patience + 1.0
    while True:
        frozen = [path for path in outgrow.cgroups(job) if _is_frozen(path, guarded)]
        if not frozen:
            return
        assert time.monotonic() < end, f"{frozen} still stand"
        time.sleep(0.02)


def _is_frozen(cgroup: Path, guarded: bool) -> bool:
    try:
        if not (cgroup / "cgroup.procs").read_text():
            return False  # nobody is in it
        if (cgroup / "freezer.state").exists():
            return (cgroup / "freezer.state").read_text().strip() != "THAWED"
        if (cgroup / "cgroup.freeze").exists():
            return (cgroup / "cgroup.freeze").read_text().strip() == "1"
        control = (cgroup / "memory.oom_control").read_text()
    except OSError:
        return False
    return not guarded and "oom_kill_disable 1" in control


def _ends_right(outgrow: Outgrow, lost: float = 0.0) -> None:
    """Let it go on, resuming it where that is needed, and look at its one answer. `lost`: seconds
    of work that may be said to be lost at most."""
    (outgrow.directory / "go").touch()
    state = outgrow.jobs()["j"]["state"]
    if state in ("saved", "lost"):
        done = outgrow("resume", "j")
        assert done.returncode == 0, done.stderr
    answers = wait_until(lambda: _answers(outgrow))
    outgrow.wait_for("j", "ended")
    assert _answers(outgrow) == answers == [_answer()]
    assert outgrow.jobs()["j"]["exit_status"] == 0
    assert outgrow.story("j")["work_lost_seconds"] <= lost


def _answers(outgrow: Outgrow) -> list[str]:
    path = outgrow.directory / "answer"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("step", STEPS)
def test_outgrow_is_killed_at_a_step_of_a_move(outgrow: Outgrow, step: str) -> None:
    with running(_start(outgrow, f"kill@{step}")) as process:
        asked = outgrow("move", "j", "--memory", "400MiB")
        assert process.wait(60) == -signal.SIGKILL
        assert asked.returncode == 75
        assert "Traceback" not in asked.stderr
        _nothing_stands(outgrow)
        _ends_right(outgrow)


@pytest.mark.parametrize("step", ["frozen", "dumping", "dumped", "thawed", "committing"])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_outgrow_dies_or_hangs_at_a_step_of_a_save(outgrow: Outgrow, step: str, how: str) -> None:
    with running(_start(outgrow, f"{how}@{step}")) as process:
        with running(outgrow.start("save", "j")) as asked:
            wait_until(lambda: process.poll() is not None or _state_of(process.pid) == "T")
            # Once the job runs, far from its limit, PID 1 does not ask whether outgrow hangs.
            _nothing_stands(outgrow, guarded=step in ("thawed", "committing"))
            if how == "stop":
                process.kill()
            assert process.wait(60) == -signal.SIGKILL
            assert asked.wait(60) == 75
        _ends_right(outgrow)


@pytest.mark.parametrize("step", ["frozen", "dumping", "committed", "releasing", "restoring"])
def test_after_a_kill_the_job_can_be_taken_under_guard_again(outgrow: Outgrow, step: str) -> None:
    with running(_start(outgrow, f"kill@{step}")) as process:
        outgrow("move", "j", "--memory", "400MiB")
        process.wait(60)
        _nothing_stands(outgrow)
        assert outgrow.jobs()["j"]["state"] == "unguarded"
        with running(outgrow.start("resume", "j")) as second:
            outgrow.wait_for("j", "running")
            assert outgrow("resume", "j").returncode == 11
            moved = outgrow("move", "j", "--memory", "500MiB")
            assert moved.returncode == 0, moved.stderr
            _ends_right(outgrow)
            assert second.wait(60) == 0


@pytest.mark.parametrize("step", ["frozen", "dumping", "dumped", "committed"])
def test_outgrow_hangs_at_a_step_of_a_move(outgrow: Outgrow, step: str) -> None:
    """PID 1 lets the job go; when outgrow wakes up, it must not release a job that ran on."""
    with running(_start(outgrow, f"stop@{step}")) as process:
        with running(outgrow.start("move", "j", "--memory", "400MiB")) as asked:
            wait_until(lambda: _state_of(process.pid) == "T")
            _nothing_stands(outgrow, patience=3.0)
            job = outgrow.jobs()["j"]["id"]
            assert outgrow.processes(job), "the job runs on"
            process.send_signal(signal.SIGCONT)
            assert asked.wait(60) != 0
        _nothing_stands(outgrow, guarded=True)
        _ends_right(outgrow)
        assert process.wait(60) == 0
    assert len(outgrow.story("j")["incarnations"]) == 1


def test_outgrow_hangs_while_the_job_grows_into_its_limit(outgrow: Outgrow) -> None:
    """The kernel holds the job there, for outgrow to come; PID 1 sees that nobody does, and gives
    the job back to the kernel's own rule."""
    words = ("run", "--memory", "100MiB", *MOVE, "--name", "j", "--")
    program = "import sys; sys.stdin.readline(); b = bytearray(b'x') * (300 << 20); print(len(b))"
    with running(outgrow.start(*words, *python(program), stdin=subprocess.PIPE)) as process:
        outgrow.wait_for("j", "running")
        process.send_signal(signal.SIGSTOP)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        job = outgrow.jobs()["j"]["id"]
        wait_until(lambda: not outgrow.processes(job), patience=10)
        process.send_signal(signal.SIGCONT)
        assert process.wait(60) == 137
    assert "kernel killed" in outgrow.story("j")["reason"]


def test_the_store_goes_away_while_the_job_runs(outgrow: Outgrow) -> None:
    with running(_start(outgrow)) as process:
        (outgrow.state / "store").rename(outgrow.state / "gone")
        done = outgrow("save", "j")
        assert (done.returncode, "Traceback" in done.stderr) == (75, False)
        _nothing_stands(outgrow, guarded=True)
        (outgrow.state / "gone").rename(outgrow.state / "store")
        _ends_right(outgrow)
        assert process.wait(60) == 0


def test_a_job_that_mounts_over_its_cgroups_is_still_given_back(outgrow: Outgrow) -> None:
    (outgrow.directory / "job.py").write_text(PATIENT)
    script = f"mount -t tmpfs none /sys/fs/cgroup && exec {sys.executable} -u job.py"
    process = outgrow.start(
        "run", "--memory", "110MiB", "--next-size", "+100MiB", "--name", "j", "--",
        "sh", "-c", script, fault="kill@dumping",
    )  # fmt: skip
    with running(process):
        assert read_line(process) == "full\n"
        outgrow.wait_for("j", "running")
        assert outgrow.jobs()["j"]["limit_bytes"] > 110 << 20, "it was grown in place"
        outgrow("save", "j")
        assert process.wait(60) == -signal.SIGKILL
        _nothing_stands(outgrow)
        _ends_right(outgrow)


def test_the_truth_does_not_need_the_journal(outgrow: Outgrow) -> None:
    """The journal is locked from before a move on; then outgrow is killed, and the job ends."""
    journal = outgrow.state / "journal.sqlite3"
    with running(_start(outgrow)) as process, closing(sqlite3.connect(journal)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        assert outgrow("move", "j", "--memory", "400MiB").returncode == 0
        process.kill()
        process.wait(60)
        (outgrow.directory / "go").touch()
        wait_until(lambda: _answers(outgrow))
        lock.rollback()
    outgrow.wait_for("j", "ended")
    assert outgrow.jobs()["j"]["exit_status"] == 0
    assert outgrow("resume", "j").returncode == 10
    assert _answers(outgrow) == [_answer()]


@pytest.mark.parametrize("seed", range(6))
def test_outgrow_is_killed_at_a_random_instant(outgrow: Outgrow, seed: int) -> None:
    random.seed(seed)
    with running(_start(outgrow)) as process:
        with running(outgrow.start("move", "j", "--memory", "400MiB")) as asked:
            time.sleep(random.uniform(0.1, 1.2))
            process.kill()
            asked.wait(60)
        process.wait(60)
        _nothing_stands(outgrow)
        _ends_right(outgrow)


@pytest.mark.parametrize("seed", range(6))
def test_criu_fails_at_a_random_instant(outgrow: Outgrow, seed: int) -> None:
    """As a disk that fills up makes it fail: every write of it does, from some instant on."""
    random.seed(seed)
    with running(_start(outgrow)) as process:
        with running(outgrow.start("save", "j")) as asked:
            pid = wait_until(lambda: _find_criu(outgrow.state) or asked.poll() is not None)
            time.sleep(random.uniform(0.0, 0.15))
            _fail_writes(pid)
            assert asked.wait(60) in (0, 13)
        _nothing_stands(outgrow, guarded=True)
        (outgrow.directory / "go").touch()
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out.decode()) == (0, _answer() + "\n")
    assert list(Path(outgrow.state, "store").rglob("*.partial")) == []


def test_the_jobs_pid_1_is_killed(outgrow: Outgrow) -> None:
    """That kills the job, as killing every process of it would; its checkpoint stands."""
    with running(_start(outgrow)) as process:
        assert outgrow("save", "j").returncode == 0
        os.kill(_init_of(process.pid), signal.SIGKILL)
        assert process.wait(60) == 137
    assert outgrow.jobs()["j"]["state"] == "lost"
    (outgrow.directory / "go").touch()
    done = outgrow("resume", "j")
    assert (done.returncode, _answers(outgrow)) == (0, [_answer()]), done.stderr
    assert outgrow.story("j")["work_lost_seconds"] > 0


def test_outgrow_and_pid_1_are_killed_together_while_the_job_stands(outgrow: Outgrow) -> None:
    """Nobody is left to thaw it, nor to say that it did not run on after it was saved. The kernel
    has killed the job; the next verb clears it away, and what was committed is there."""
    with running(_start(outgrow, "stop@committed")) as process:
        with running(outgrow.start("move", "j", "--memory", "400MiB")) as asked:
            wait_until(lambda: _state_of(process.pid) == "T")
            init = _init_of(process.pid)
            os.kill(init, signal.SIGKILL)
            process.kill()
            asked.wait(60)
        process.wait(60)
        _ends_right(outgrow, lost=5.0)


def test_the_store_is_full(outgrow: Outgrow) -> None:
    with _small_filesystem(outgrow.state, "60m"), running(_start(outgrow)) as process:
        done = outgrow("save", "j")
        assert done.returncode == 75
        assert "room" in done.stderr
        _nothing_stands(outgrow, guarded=True)
        _ends_right(outgrow)
        assert process.wait(60) == 0


def test_the_store_fills_up_during_the_dump(outgrow: Outgrow) -> None:
    with _small_filesystem(outgrow.state, "150m"), running(_start(outgrow)) as process:
        with running(outgrow.start("save", "j")) as asked:
            wait_until(lambda: list(outgrow.state.rglob("*.partial")) or asked.poll() is not None)
            fill = outgrow.state / "fill"
            subprocess.run(
                ["dd", "if=/dev/zero", f"of={fill}", "bs=1M"], check=False, capture_output=True
            )
            assert asked.wait(60) in (0, 13, 75)
            failed = asked.returncode != 0
            fill.unlink()
        _nothing_stands(outgrow, guarded=True)
        assert failed, "the filesystem was meant to be too small"
        assert list((outgrow.state / "store").rglob("*.partial")) == []
        _ends_right(outgrow)
        assert process.wait(60) == 0


def test_at_the_limit_with_a_full_store_the_kernels_rule_stands_again(outgrow: Outgrow) -> None:
    program = """
import time
blocks = [bytearray(b"x" * (1 << 20)) for _ in range(85)]  # into the band, below the limit
print("in the band", flush=True)
time.sleep(0.5)
print("ended by itself")
"""
    with _small_filesystem(outgrow.state, "40m"):
        done = outgrow(
            "run", "--memory", "100MiB", *MOVE, "--name", "j", "--messages", "always", "--",
            *python(program),
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "in the band\nended by itself\n")
        assert "could not be saved" in done.stderr
        (save,) = outgrow.story("j")["saves"]
        assert save["outcome"] == "thawed"


def test_a_state_directory_that_cannot_be_written(outgrow: Outgrow) -> None:
    outgrow.state.mkdir()
    with _small_filesystem(outgrow.state, "10m", "ro"):
        done = outgrow("run", "--", "touch", "ran")
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
    assert not (outgrow.directory / "ran").exists()


@pytest.mark.parametrize("damage", ["flip", "cut", "delete", "add", "manifest"])
def test_a_damaged_checkpoint_is_refused(outgrow: Outgrow, damage: str) -> None:
    with running(_start(outgrow)) as process:
        assert outgrow("save", "j", "--stop").returncode == 0
        assert process.wait(60) == 75
    job = outgrow.jobs()["j"]["id"]
    folder = outgrow.state / "store" / job / "1"
    pages = max((folder / "images").iterdir(), key=lambda path: path.stat().st_size)
    original = pages.read_bytes()
    match damage:
        case "flip":
            pages.write_bytes(original[:1000] + bytes([original[1000] ^ 1]) + original[1001:])
        case "cut":
            pages.write_bytes(original[:-1])
        case "delete":
            pages.unlink()
        case "add":
            (folder / "images" / "core-99.img").write_bytes(b"x")
        case "manifest":
            (folder / "manifest.json").write_bytes(b'{"format": 1')
    done = outgrow("resume", "j")
    assert done.returncode == 12, done.stderr
    assert "Traceback" not in done.stderr
    assert job in done.stderr
    assert outgrow.jobs()["j"]["state"] in ("saved", "lost")
    if damage in ("flip", "cut"):
        pages.write_bytes(original)
        _ends_right(outgrow)


def test_a_half_written_checkpoint_is_never_used(outgrow: Outgrow) -> None:
    with running(_start(outgrow, "kill@committing")) as process:
        outgrow("move", "j", "--memory", "400MiB")
        process.wait(60)
        os.kill(_init_at(outgrow), signal.SIGKILL)
        outgrow.wait_for("j", "lost")
    done = outgrow("resume", "j")
    assert done.returncode == 10
    assert "no checkpoint" in done.stderr


def _state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _init_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children:
        if Path(f"/proc/{child}/comm").read_text().strip() == "outgrow-init":
            return int(child)
    raise AssertionError(f"no PID 1 among {children}")


def _init_at(outgrow: Outgrow) -> int:
    (member, *_) = outgrow.processes(outgrow.jobs()["j"]["id"])
    status = Path(f"/proc/{member}/status").read_text()
    parent = int(status.split("PPid:")[1].split()[0])
    assert Path(f"/proc/{parent}/comm").read_text().strip() == "outgrow-init"
    return parent


def _find_criu(state: Path) -> int:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"dump" in words and any(str(state).encode() in word for word in words):
            return int(folder.name)
    return 0


def _fail_writes(pid: object) -> None:
    try:
        if isinstance(pid, int) and pid > 1:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
    except ProcessLookupError:
        pass


class _small_filesystem:
    def __init__(self, path: Path, size: str, options: str = "rw") -> None:
        self.path, self.options = path, f"size={size},mode=0700,{options}"

    def __enter__(self) -> None:
        self.path.mkdir(mode=0o700, exist_ok=True)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", str(self.path)], check=True
        )

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=True)
