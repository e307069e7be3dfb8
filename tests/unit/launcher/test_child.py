"""What a job inherits: all that its user had, and nothing of outgrow's."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from outgrow.launcher.child import (
    INHERITED_AT,
    Start,
    engine_in_child,
    start_in_child,
    stop_engine,
)

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="becoming another user takes root: run the tests with sudo"
)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A shell in `tmp_path`, its streams null."""
    return Start(
        argv=["sh", "-c", "true"],
        directory=str(tmp_path),
        environment={"PATH": "/usr/bin:/bin"},
        uid=os.getuid(),
        gid=os.getgid(),
        groups=os.getgroups(),
        umask=0o077,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        oom_score_adj=0,
        streams=[{"stream": n, "path": os.devnull, "flags": os.O_RDWR} for n in range(3)],
    )


def run(start: Start, script: str, *join: str) -> int:
    """Run a shell script as the job; its wait status."""
    pid, failure = start_in_child(replace(start, argv=["sh", "-c", script]), join)
    assert failure is None
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_it_runs_and_its_status_is_its_own(start: Start) -> None:
    assert run(start, "exit 7") == 7
    assert run(start, "kill -TERM $$") == -signal.SIGTERM


def test_it_has_its_directory_environment_and_umask(start: Start, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    start = replace(start, environment={**start.environment, "ODD": odd}, umask=0o027)
    run(start, 'pwd > pwd; printf %s "$ODD" > odd; env > env')
    assert (tmp_path / "pwd").read_text() == f"{tmp_path}\n"
    assert (tmp_path / "odd").read_bytes() == b"caf\xe9"
    assert (tmp_path / "env").stat().st_mode & 0o777 == 0o640
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text("latin1").splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "ODD"}


def test_it_has_its_own_priority_and_not_outgrows(start: Start, tmp_path: Path) -> None:
    nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)
    run(replace(start, nice=nice, oom_score_adj=321), "nice > nice; cp /proc/$$/oom_score_adj oom")
    assert (tmp_path / "nice").read_text() == f"{nice}\n"
    assert (tmp_path / "oom").read_text() == "321\n"


def test_it_has_a_session_of_its_own(start: Start, tmp_path: Path) -> None:
    run(start, "cut -d' ' -f1,5,6 /proc/$$/stat > ids")
    pid, group, session = (tmp_path / "ids").read_text().split()
    assert pid == group == session != str(os.getpid())


def test_it_has_its_three_streams_and_no_other_descriptor(start: Start, tmp_path: Path) -> None:
    ours = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(ours, True)
    run(start, 'sh -c "ls /proc/$$/fd > fds"; true')  # seen from a process of its own
    os.close(ours)
    assert (tmp_path / "fds").read_text().split() == ["0", "1", "2"]


def test_no_signal_is_ignored_or_blocked_for_it(start: Start, tmp_path: Path) -> None:
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN  # Python's own way
    pid, _ = start_in_child(replace(start, argv=["cp", "/proc/self/status", "status"]), [])
    os.waitpid(pid, 0)
    fields = dict(line.split(":", 1) for line in (tmp_path / "status").read_text().splitlines())
    for name in ("SigIgn", "SigBlk"):
        mask = int(fields[name], 16)
        assert not mask & 1 << signal.SIGPIPE - 1
        assert not mask & 1 << signal.SIGXFSZ - 1


def test_its_devices_are_opened_again_and_its_other_streams_stay(tmp_path: Path) -> None:
    """In a process of its own, whose streams stand for the user's."""
    script = """
import os, sys
from outgrow.launcher.child import Start, start_in_child
start = Start(
    argv=["sh", "-c", 'cat; echo err >&2; sh -c "readlink /proc/$$/fd/1 >&2"; true'],
    directory="/", environment={"PATH": "/usr/bin:/bin"},
    uid=os.getuid(), gid=os.getgid(), groups=os.getgroups(), umask=0o022,
    nice=os.getpriority(os.PRIO_PROCESS, 0), oom_score_adj=0,
    streams=[{"stream": 1, "path": "/dev/null", "flags": os.O_WRONLY}],
)
pid, failure = start_in_child(start, [])
os.waitpid(pid, 0)
print("after", failure)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input="swallowed by /dev/null",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ran.stderr == "err\n/dev/null\n"
    assert ran.stdout == "after None\n"


def test_it_joins_its_cgroups_before_it_is_itself(start: Start, tmp_path: Path) -> None:
    for name in ("memory", "freezer"):
        (tmp_path / name).write_text("")
    run(start, "cat memory freezer > joined", str(tmp_path / "memory"), str(tmp_path / "freezer"))
    assert (tmp_path / "joined").read_text() == "00"


@pytest.mark.parametrize(
    ("argv", "directory", "number"),
    [
        pytest.param(["no-such-command"], ".", errno.ENOENT, id="no such command"),
        pytest.param(["/no/such/command"], ".", errno.ENOENT, id="no such path"),
        pytest.param(["./plain"], ".", errno.EACCES, id="not executable"),
        pytest.param(["./folder"], ".", errno.EACCES, id="a directory"),
        pytest.param(["./plain/x"], ".", errno.ENOTDIR, id="below a file"),
        pytest.param(["./lost"], ".", errno.ENOENT, id="an interpreter that is not there"),
        pytest.param(["sh"], "gone", errno.ENOENT, id="a directory that is gone"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_by_its_errno(
    start: Start, tmp_path: Path, argv: list[str], directory: str, number: int
) -> None:
    (tmp_path / "plain").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "lost").write_text("#!/no/such/interpreter\n")
    (tmp_path / "lost").chmod(0o755)
    pid, failure = start_in_child(
        replace(start, argv=argv, directory=str(tmp_path / directory)), []
    )
    assert failure == number
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 127


def test_a_cgroup_that_cannot_be_joined_starts_nothing(start: Start, tmp_path: Path) -> None:
    start = replace(start, argv=["touch", "ran"])
    pid, failure = start_in_child(start, [str(tmp_path / "gone/cgroup.procs")])
    os.waitpid(pid, 0)
    assert failure == errno.ENOENT
    assert not (tmp_path / "ran").exists()


def test_a_script_without_an_interpreter_is_the_shells(start: Start, tmp_path: Path) -> None:
    (tmp_path / "script").write_text('echo "$1" > said\n')
    (tmp_path / "script").chmod(0o755)
    pid, failure = start_in_child(replace(start, argv=["./script", "hello"]), [])
    assert failure is None
    os.waitpid(pid, 0)
    assert (tmp_path / "said").read_text() == "hello\n"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a-script-of-ours", id="alone"),
        pytest.param("true", id="before a program of that name"),
    ],
)
def test_such_a_script_is_also_found_on_the_path(start: Start, tmp_path: Path, name: str) -> None:
    """The first of that name that can be executed counts, as in execvp(3)."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).write_text('echo "$0" > said\n')
    (tmp_path / "bin" / name).chmod(0o755)
    path = f"/no/such/folder:{tmp_path}/bin:/usr/bin:/bin"
    start = replace(start, argv=[name], environment={"PATH": path})
    pid, failure = start_in_child(start, [])
    assert failure is None
    os.waitpid(pid, 0)
    assert (tmp_path / "said").read_text() == f"{tmp_path}/bin/{name}\n"


@needs_root
def test_it_is_its_user_for_good(start: Start, tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    pid, failure = start_in_child(
        replace(
            start,
            argv=["cp", "/proc/self/status", "status"],
            uid=nobody.pw_uid,
            gid=nobody.pw_gid,
            groups=[nobody.pw_gid],
        ),
        [],
    )
    assert failure is None
    os.waitpid(pid, 0)
    fields = dict(line.split(":", 1) for line in (tmp_path / "status").read_text().splitlines())
    assert fields["Uid"].split() == [str(nobody.pw_uid)] * 4
    assert fields["Gid"].split() == [str(nobody.pw_gid)] * 4
    assert fields["Groups"].split() == [str(nobody.pw_gid)]


@pytest.mark.parametrize("hand_on", [True, False])
def test_an_engine_says_nothing_into_the_jobs_output(tmp_path: Path, hand_on: bool) -> None:
    """In a process of its own, whose streams 0 to 2 stand for the job's."""
    script = f"""
import os, sys
from outgrow.launcher.child import engine_in_child
pid = engine_in_child(["/bin/sh", "-c", sys.argv[1]], [], hand_on={hand_on})
os.waitpid(pid, 0)
"""
    engine = f'echo noise; echo more >&2; sh -c "ls -l /proc/$$/fd > {tmp_path}/fds"; true'
    ran = subprocess.run(
        [sys.executable, "-c", script, engine],
        input=b"",
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert (ran.stdout, ran.stderr) == (b"", b"")
    lines = (tmp_path / "fds").read_text().splitlines()[1:]
    found = {line.split()[-3]: line.split()[-1].partition(":")[0] for line in lines}
    outer = {str(INHERITED_AT + stream): "pipe" for stream in range(3)} if hand_on else {}
    assert found == {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null"} | outer


def test_an_engine_has_nothing_of_the_users_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD_LIKE", "something of the user's")
    pid = engine_in_child(["/bin/sh", "-c", f"env > {tmp_path}/env"], [], hand_on=False)
    os.waitpid(pid, 0)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH"}


def test_an_engine_that_is_told_to_give_up_cannot_write_and_ends_by_itself(tmp_path: Path) -> None:
    fifo, out = tmp_path / "fifo", tmp_path / "out"
    os.mkfifo(fifo)
    script = f"echo before > {out}; read line < {fifo}; echo after >> {out} || exit 7"
    pid = engine_in_child(["/bin/sh", "-c", script], [], hand_on=False)
    with fifo.open("w") as ready:  # opens when the engine is where it reads
        stop_engine(pid)
        ready.write("go on\n")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert out.read_text() == "before\n"


def test_an_engine_that_is_gone_cannot_be_told_and_need_not(tmp_path: Path) -> None:
    pid = engine_in_child(["/bin/true"], [], hand_on=False)
    os.waitpid(pid, 0)
    stop_engine(pid)


def test_an_engine_that_is_not_there_ends_as_a_shell_says(tmp_path: Path) -> None:
    pid = engine_in_child([str(tmp_path / "criu")], [], hand_on=False)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 127


def test_the_outer_streams_stay_clear_of_the_engines_own() -> None:
    assert INHERITED_AT > 2
