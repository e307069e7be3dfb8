"""A job starts with what the user has, and ends with what the program says."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import time

import pytest

from tests.host.kit import MOVE, Outgrow, python, read_line, running

REPORT = """
import json, os, resource, signal
blocks = []
def report():
    return {
        "cwd": os.getcwd(), "umask": os.umask(0o22), "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "groups": os.getgroups(), "ids": [os.getuid(), os.geteuid(), os.getgid()],
        "hup": signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
        "usr1": signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL,
        "blocked": [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
        "marker": os.environ.get("MARKER"), "oom": open("/proc/self/oom_score_adj").read().strip(),
        "descriptors": sorted(int(d) for d in os.listdir("/proc/self/fd"))[:-1],
        "pipe": open("/proc/self/status").read().split("SigIgn:")[1].split()[0],
    }
"""
PRINT = REPORT + "print(json.dumps(report()))"


def _report(outgrow: Outgrow, **options: object) -> dict[str, object]:
    done = outgrow("run", "--memory", "64MiB", "--", *python(PRINT), **options)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def test_everything_that_a_process_inherits_is_as_the_user_had_it(outgrow: Outgrow) -> None:
    def prepare() -> None:
        os.umask(0o027)
        os.nice(5)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 100, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    report = _report(outgrow, preexec_fn=prepare, env={"MARKER": "a\nb'\udcff"})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert report["cwd"] == str(outgrow.directory)
    assert report["umask"] == 0o027
    assert report["nice"] == os.getpriority(os.PRIO_PROCESS, 0) + 5
    assert report["nofile"] == [soft - 100, hard]
    assert report["core"] == [0, 0]
    assert report["marker"] == "a\nb'\udcff"
    assert report["groups"] == os.getgroups()
    assert report["ids"] == [os.getuid(), os.geteuid(), os.getgid()]
    with open("/proc/self/oom_score_adj") as file:
        assert report["oom"] == file.read().strip()
    assert report["descriptors"] == [0, 1, 2]
    assert report["blocked"] == []
    assert report["usr1"] is True
    assert report["hup"] is False


def test_a_signal_that_was_ignored_stays_ignored(outgrow: Outgrow) -> None:
    report = _report(outgrow, under=("nohup",))
    assert report["hup"] is True


def test_the_outer_priority_is_not_the_jobs_after_a_move_either(outgrow: Outgrow) -> None:
    program = (
        REPORT
        + """
blocks = [bytearray(b"x" * (1 << 20)) for _ in range(110)]
print(json.dumps(report()))
"""
    )
    done = outgrow("run", "--memory", "100MiB", *MOVE, "--name", "j", "--", *python(program))
    report = json.loads(done.stdout)
    assert report["nice"] == os.getpriority(os.PRIO_PROCESS, 0)
    assert report["descriptors"] == [0, 1, 2]
    assert len(outgrow.story("j")["incarnations"]) == 2


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 255"], 255),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_exit_status_is_the_programs_own(
    outgrow: Outgrow, command: list[str], status: int
) -> None:
    assert outgrow("run", "--memory", "64MiB", "--", *command).returncode == status


def test_a_command_that_does_not_exist(outgrow: Outgrow) -> None:
    done = outgrow("run", "--name", "j", "--", "no-such-program-here")
    assert done.returncode == 127
    assert "no-such-program-here" in done.stderr
    assert "Traceback" not in done.stderr
    assert outgrow.story("j")["state"] == "ended"


def test_a_command_that_is_not_executable(outgrow: Outgrow) -> None:
    (outgrow.directory / "data").write_text("no program")
    done = outgrow("run", "--name", "j", "--", "./data")
    assert done.returncode == 126
    assert "Traceback" not in done.stderr
    assert outgrow.jobs()["j"]["exit_status"] == 126


def test_a_script_without_an_interpreter_line_runs_as_in_a_shell(outgrow: Outgrow) -> None:
    script = outgrow.directory / "script"
    script.write_text("echo plain")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    assert outgrow("run", "--", "./script").stdout == "plain\n"


def test_what_the_job_leaves_in_the_background_is_ended(outgrow: Outgrow) -> None:
    done = outgrow("run", "--name", "j", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo on")
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert outgrow.cgroups(outgrow.jobs()["j"]["id"]) == []


IN_THE_BACKGROUND = """
(while ! test -e end; do sleep 0.02; done; echo later) &
echo first
exit 3
"""


def test_what_the_job_leaves_in_the_background_is_waited_for_and_moves_with_it(
    outgrow: Outgrow,
) -> None:
    words = ("run", "--memory", "64MiB", "--wait-all", "--name", "j", "--")
    with running(outgrow.start(*words, "sh", "-c", IN_THE_BACKGROUND)) as process:
        assert read_line(process) == "first\n"
        outgrow.wait_for("j", "running")
        for memory in ("80MiB", "96MiB"):
            done = outgrow("move", "j", "--memory", memory)
            assert done.returncode == 0, done.stderr
        (outgrow.directory / "end").touch()
        assert (process.communicate(timeout=60)[0], process.returncode) == (b"later\n", 3)


@pytest.mark.parametrize(("command", "status"), [("kill -9 $$", 137), ("true", 0), ("exit 9", 9)])
def test_with_wait_all_the_status_is_the_commands(
    outgrow: Outgrow, command: str, status: int
) -> None:
    done = outgrow("run", "--wait-all", "--", "sh", "-c", f"sleep 0.2 & {command}")
    assert done.returncode == status
    done = outgrow("run", "--wait-all", "--", "/no/such/program")
    assert (done.returncode, "No such file" in done.stderr) == (127, True)


@pytest.mark.parametrize("wait_all", [[], ["--wait-all"]])
def test_with_wait_all_the_environment_is_the_same(outgrow: Outgrow, wait_all: list[str]) -> None:
    done = outgrow("run", *wait_all, "--", "env", env={"LC_ALL": "", "LANG": "", "LC_CTYPE": ""})
    assert "LC_CTYPE=\n" in done.stdout
    script = outgrow.directory / "script"
    script.write_text("echo plain; echo $1")
    script.chmod(0o755)
    assert outgrow("run", *wait_all, "--", "./script", "a b").stdout == "plain\na b\n"


def test_with_wait_all_a_signal_reaches_the_command_once(outgrow: Outgrow) -> None:
    program = """
import signal, sys, time
got = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: got.append(int(number)))
print("ready", flush=True)
while len(got) < 2:
    time.sleep(0.01)
time.sleep(0.3)
print(got)
"""
    with running(outgrow.start("run", "--wait-all", "--", *python(program))) as process:
        assert read_line(process) == "ready\n"
        for number in (signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            time.sleep(0.2)
        assert process.communicate(timeout=60)[0] == b"[15, 2]\n"


@pytest.mark.parametrize(
    "name", ["with space", "quo'te\"s", "größe-日本", "$(id)", "../up", "-dash", "%_"]
)
def test_names_of_every_kind(outgrow: Outgrow, name: str) -> None:
    assert outgrow("run", f"--name={name}", "--", "true").returncode == 0
    assert outgrow.jobs()[name]["state"] == "ended"
    assert outgrow("show", "--", name).returncode == 0
    assert outgrow("forget", "--", name).returncode == 0


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[31m", "", "last", "x" * 201])
def test_names_that_are_refused(outgrow: Outgrow, name: str) -> None:
    done = outgrow("run", f"--name={name}", "--", "touch", "ran")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not (outgrow.directory / "ran").exists()


def test_what_a_thread_has_set_for_itself_survives_a_move(outgrow: Outgrow) -> None:
    program = """
import os, sys, threading
def pinned():
    os.sched_setaffinity(0, {cpu})
    told.set()
    end.wait()
    print("thread", sorted(os.sched_getaffinity(0)), flush=True)
cpu = max(os.sched_getaffinity(0))
everywhere = os.sched_getaffinity(0)
told, end = threading.Event(), threading.Event()
thread = threading.Thread(target=pinned)
thread.start()
told.wait()
print("ready", cpu, flush=True)
sys.stdin.readline()
end.set()
thread.join()
print("first", os.sched_getaffinity(0) == everywhere)
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        cpu = int(read_line(process).split()[1])
        outgrow.wait_for("j", "running")
        for memory in ("80MiB", "96MiB"):
            assert outgrow("move", "j", "--memory", memory).returncode == 0
        out, err = process.communicate(b"go\n", timeout=60)
    assert out.decode() == f"thread [{cpu}]\nfirst True\n", err.decode()
