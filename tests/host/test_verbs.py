"""ps, show, save, resume, move, kill and forget, from another terminal."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from tests.host.kit import MOVE, Outgrow, grow, python, read_line, running, wait_until

COUNTER = """
import os, sys, time
for number in range(int(sys.argv[1])):
    print(number, flush=True)
    time.sleep(0.02)
while not os.path.exists("go"):
    time.sleep(0.02)
"""
"""Does not end before it is told to, however slow the machine is."""


def _counter(outgrow: Outgrow, count: int, name: str = "j") -> subprocess.Popen[bytes]:
    process = outgrow.start(
        "run", "--memory", "64MiB", "--name", name, "--label", "team=a b", "--",
        *python(COUNTER, str(count)),
    )  # fmt: skip
    assert read_line(process) == "0\n"
    outgrow.wait_for(name, "running")
    return process


def _rest(outgrow: Outgrow, process: subprocess.Popen[bytes], count: int) -> None:
    (outgrow.directory / "go").touch()
    out, err = process.communicate(timeout=60)
    numbers = [int(line) for line in out.split()]
    assert numbers == list(range(1, count)), err
    assert process.returncode == 0


def test_ps_and_show_of_a_running_job(outgrow: Outgrow) -> None:
    with running(_counter(outgrow, 60)) as process:
        job = outgrow.jobs()["j"]
        assert (job["state"], job["limit_bytes"], job["incarnations"]) == ("running", 64 << 20, 1)
        assert job["labels"] == {"team": "a b"}
        assert "j" in outgrow("ps").stdout
        assert outgrow.story(job["id"])["id"] == job["id"]
        assert outgrow.story(job["id"][:4])["id"] == job["id"]
        assert outgrow.story("last")["id"] == job["id"]
        shown = outgrow("show", "j")
        assert shown.returncode == 0
        assert "64 MiB" in shown.stdout
        _rest(outgrow, process, 60)
    assert json.loads(outgrow("ps", "--json").stdout)["jobs"] == []
    assert outgrow.jobs()["j"]["exit_status"] == 0


def test_save_lets_the_job_run_on(outgrow: Outgrow) -> None:
    with running(_counter(outgrow, 80)) as process:
        for number in (1, 2):
            done = outgrow("save", "j", "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["checkpoint"] == number
        wait_until(lambda: outgrow.story("j")["checkpoints"] == [2])
        steps = outgrow.steps("j")
        assert steps.index("thawed") < steps.index("committing"), "it stands no longer than it must"
        _rest(outgrow, process, 80)
    story = outgrow.story("j")
    assert [save["outcome"] for save in story["saves"]] == ["saved", "saved"]
    assert story["checkpoints"] == []
    assert len(story["incarnations"]) == 1


def test_save_stop_and_resume_from_another_terminal(outgrow: Outgrow) -> None:
    target = outgrow.directory / "out"
    with target.open("wb") as stdout:
        process = outgrow.start(
            "run", "--memory", "64MiB", "--name", "j", "--", *python(COUNTER, "60"), stdout=stdout
        )
        with running(process):
            wait_until(lambda: target.read_text().count("\n") > 3)
            done = outgrow("save", "j", "--stop")
            assert done.returncode == 0, done.stderr
            assert process.wait(60) == 75
    job = outgrow.jobs()["j"]
    assert job["state"] == "saved"
    assert outgrow.cgroups(job["id"]) == []
    assert outgrow("save", "j").returncode == 13
    assert outgrow("move", "j", "--memory", "1GiB").returncode == 13
    assert outgrow("forget", "j").returncode == 11
    (outgrow.directory / "go").touch()
    assert outgrow("resume", "j").returncode == 0
    assert [int(line) for line in target.read_text().split()] == list(range(60))
    assert outgrow("resume", "j").returncode == 10


def test_move_up_and_down(outgrow: Outgrow) -> None:
    with running(_counter(outgrow, 120)) as process:
        assert outgrow("move", "j", "--memory", "512MiB").returncode == 0
        assert outgrow.jobs()["j"]["limit_bytes"] == 512 << 20
        assert outgrow("move", "j", "--memory", "32MiB").returncode == 0
        refused = outgrow("move", "j", "--memory", "4MiB")
        assert refused.returncode == 2
        assert "too little to bring a job back in" in refused.stderr
        assert outgrow("move", "j", "--memory", "900TiB").returncode == 2
        assert outgrow.jobs()["j"]["limit_bytes"] == 32 << 20
        _rest(outgrow, process, 120)
    assert len(outgrow.story("j")["incarnations"]) == 3


def test_two_saves_at_once(outgrow: Outgrow) -> None:
    program = "import os, time; b = os.urandom(200 << 20); print(1, flush=True); time.sleep(60)"
    with running(outgrow.start("run", "--name", "j", "--", *python(program))) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        both = [outgrow.start("save", "j") for _ in range(2)]
        statuses = []
        for save in both:
            with running(save):
                statuses.append(save.wait(60))
        assert sorted(statuses) == [0, 11]
        outgrow("kill", "j", "--signal", "KILL")
        process.wait(60)


def test_resume_of_a_job_that_runs(outgrow: Outgrow) -> None:
    with running(_counter(outgrow, 60)) as process:
        assert outgrow("resume", "j").returncode == 11
        assert outgrow("forget", "j").returncode == 11
        _rest(outgrow, process, 60)


def test_kill_a_running_job(outgrow: Outgrow) -> None:
    with running(_counter(outgrow, 10000)) as process:
        assert outgrow("kill", "j").returncode == 0
        assert process.wait(60) == 128 + signal.SIGTERM
    assert outgrow.jobs()["j"]["exit_status"] == 143
    assert outgrow("kill", "j").returncode == 10


def test_kill_a_job_that_ignores_being_told(outgrow: Outgrow) -> None:
    script = "trap '' TERM; echo on; while :; do sleep 1; done"
    with running(outgrow.start("run", "--name", "j", "--", "sh", "-c", script)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        assert outgrow("kill", "j").returncode == 0
        assert process.wait(60) == 128 + signal.SIGKILL
    assert outgrow.jobs()["j"]["state"] == "ended"


def test_kill_and_forget_a_saved_job(outgrow: Outgrow) -> None:
    with running(_counter(outgrow, 10000)) as process:
        assert outgrow("save", "j", "--stop").returncode == 0
        assert process.wait(60) == 75
    assert outgrow("kill", "j").returncode == 0
    assert outgrow.jobs()["j"]["state"] == "ended"
    assert outgrow("forget", "j").returncode == 0
    assert outgrow.jobs() == {}


def test_jobs_that_are_not_there(outgrow: Outgrow) -> None:
    for verb in ("show", "save", "resume", "kill", "forget"):
        done = outgrow(verb, "nothing")
        assert (done.returncode, "Traceback" in done.stderr) == (10, False)
    assert outgrow("ps").returncode == 0
    assert outgrow("run", "--name", "j", "--", "true").returncode == 0
    for name in ("", "%", "../x", "\udcff", "last\n"):
        done = outgrow("show", "--", name)
        assert (done.returncode, "Traceback" in done.stderr) == (10, False), done.stderr


def test_a_signal_reaches_the_job(outgrow: Outgrow) -> None:
    script = "trap 'echo caught; exit 5' USR1; echo on; while :; do sleep 0.05; done"
    with running(outgrow.start("run", "--name", "j", "--", "bash", "-c", script)) as process:
        read_line(process)
        process.send_signal(signal.SIGUSR1)
        assert read_line(process) == "caught\n"
        assert process.wait(60) == 5


def test_a_signal_during_a_save_reaches_the_job_after_it(outgrow: Outgrow) -> None:
    program = """
import os, signal, sys, time
blocks = os.urandom(300 << 20)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(6))
print("on", flush=True)
while True: time.sleep(0.05)
"""
    with running(outgrow.start("run", "--name", "j", "--", *python(program))) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        with running(outgrow.start("move", "j", "--memory", "1GiB")) as move:
            outgrow.wait_for("j", "frozen", "saving", "saved")
            process.terminate()
            assert move.wait(60) == 0
        assert process.wait(60) == 6
    story = outgrow.story("j")
    assert [save["outcome"] for save in story["saves"]] == ["moved"]


def test_a_job_waits_on_disk_until_there_is_room(outgrow: Outgrow) -> None:
    """Another job was promised most of the host; when it ends, the one that waits goes on."""
    total = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    with running(
        outgrow.start("run", "--memory", f"{total - 1500}MiB", "--name", "big", "--", "sleep", "60")
    ) as big:
        outgrow.wait_for("big", "running")
        words = ("run", "--memory", "64MiB", "--next-size", "+3GiB", *MOVE, "--name", "j", "--")
        with running(outgrow.start(*words, *grow(90))) as process:
            outgrow.wait_for("j", "queued")
            job = outgrow.jobs()["j"]
            assert outgrow.processes(job["id"]) == []
            assert outgrow("kill", "big").returncode == 0
            big.wait(60)
            out, _ = process.communicate(timeout=60)
            assert (process.returncode, out) == (0, b"OK\n")
    (save,) = outgrow.story("j")["saves"]
    assert save["wait_seconds"] > 0
