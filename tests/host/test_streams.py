"""Standard streams stay with the job over moves."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence

import pytest

from tests.host.kit import MOVE, Outgrow, grow, kill_the_job, python, read_line, running, wait_until

LINES = """
import sys
blocks = []
for line in sys.stdin:
    blocks.append(bytearray(b"x" * (1 << 20)))
    print("got", line.strip(), flush=True)
print("end", len(blocks), file=sys.stderr)
"""
"""Grows by 1 MiB with each line that it reads."""
_COUNT = 150
_EXPECTED = "".join(f"got {number}\n" for number in range(_COUNT))
_INPUT = "".join(f"{number}\n" for number in range(_COUNT)).encode()
_RUN = ("run", "--memory", "100MiB", *MOVE, "--name", "j", "--", *python(LINES))


def test_pipes_on_all_three(outgrow: Outgrow) -> None:
    with running(outgrow.start(*_RUN, stdin=subprocess.PIPE)) as process:
        out, err = process.communicate(_INPUT, timeout=60)
    assert (process.returncode, out.decode(), err.decode()) == (0, _EXPECTED, f"end {_COUNT}\n")
    assert len(outgrow.story("j")["incarnations"]) >= 2


def test_files_on_all_three_with_output_and_errors_in_one(outgrow: Outgrow) -> None:
    source, target = outgrow.directory / "in", outgrow.directory / "out"
    source.write_bytes(_INPUT)
    with source.open("rb") as stdin, target.open("wb") as stdout:
        done = outgrow(*_RUN, stdin=stdin, stdout=stdout, stderr=subprocess.STDOUT)
    assert done.returncode == 0
    assert target.read_text() == f"{_EXPECTED}end {_COUNT}\n"


def test_a_file_that_two_streams_opened_each_by_itself(outgrow: Outgrow) -> None:
    """As `> both 2> both` does: each has its own offset, and writes over the other."""
    target = outgrow.directory / "both"
    program = """
import sys
blocks = []
print("from the output, long", flush=True)
for _ in range(90):
    blocks.append(bytearray(b"x" * (1 << 20)))
print("errors", file=sys.stderr, flush=True)
print("output", flush=True)
"""
    with target.open("wb") as stdout, target.open("wb") as stderr:
        done = outgrow(
            "run", "--memory", "64MiB", *MOVE, "--name", "j", "--", *python(program),
            stdout=stdout, stderr=stderr,
        )  # fmt: skip
    assert done.returncode == 0
    assert target.read_text() == "errors\ne output, long\noutput\n"
    assert len(outgrow.story("j")["incarnations"]) >= 2


def test_what_is_written_next_to_the_job_follows_what_it_wrote(outgrow: Outgrow) -> None:
    target = outgrow.directory / "out"
    with target.open("wb") as stdout:
        stdout.write(b"before\n")
        stdout.flush()
        done = outgrow("run", "--memory", "64MiB", *MOVE, "--", *grow(90), stdout=stdout)
        assert done.returncode == 0
        os.write(stdout.fileno(), b"after\n")
    assert target.read_text() == "before\nOK\nafter\n"


def test_a_script_with_one_log_goes_on_in_it_when_it_resumes_the_job(outgrow: Outgrow) -> None:
    log = outgrow.directory / "log"
    program = "import sys; print('begun', flush=True); sys.stdin.readline(); print('on')"
    with log.open("wb") as stdout:
        words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
        with running(outgrow.start(*words, stdin=subprocess.PIPE, stdout=stdout)) as process:
            outgrow.wait_for("j", "running")
            wait_until(lambda: log.read_text() == "begun\n")
            assert outgrow("save", "j", "--stop").returncode == 0
            assert process.wait(60) == 75
        os.write(stdout.fileno(), b"between\n")
        done = outgrow("resume", "j", stdin=subprocess.DEVNULL, stdout=stdout)
        assert done.returncode == 0, done.stderr
        os.write(stdout.fileno(), b"after\n")
    assert log.read_text() == "begun\nbetween\non\nafter\n"


def test_a_file_that_is_appended_to_by_others_too(outgrow: Outgrow) -> None:
    target = outgrow.directory / "out"
    target.write_text("before\n")
    with target.open("ab") as stdout:
        done = outgrow("run", "--memory", "64MiB", *MOVE, "--", *grow(90), stdout=stdout)
    assert done.returncode == 0
    assert target.read_text() == "before\nOK\n"


def test_a_file_that_others_write_to_as_well(outgrow: Outgrow) -> None:
    """One description, one offset: whoever writes, writes after the others, moves or not."""
    target = outgrow.directory / "out"
    program = """
import sys
blocks = []
for line in sys.stdin:
    blocks.append(bytearray(b"x" * (1 << 20)))
    print("job", line.strip(), flush=True)
"""
    with target.open("wb") as stdout:
        process = outgrow.start(
            "run", "--memory", "64MiB", *MOVE, "--name", "j", "--", *python(program),
            stdin=subprocess.PIPE, stdout=stdout, stderr=stdout,
        )  # fmt: skip
        with running(process):
            assert process.stdin is not None
            for number in range(60):
                os.write(stdout.fileno(), b"other %d\n" % number)
                process.stdin.write(b"%d\n" % number)
                process.stdin.flush()
                wait_until(lambda: target.read_bytes().endswith(b"job %d\n" % number))  # noqa: B023
            process.stdin.close()
            assert process.wait(60) == 0
    expected = "".join(f"other {number}\njob {number}\n" for number in range(60))
    assert target.read_text() == expected
    assert len(outgrow.story("j")["incarnations"]) >= 2


def test_outgrows_own_message_in_the_jobs_log_does_not_keep_it_from_coming_back(
    outgrow: Outgrow,
) -> None:
    log = outgrow.directory / "log"
    with log.open("wb") as stream:
        done = outgrow(
            "run", "--memory", "64MiB", "--max-memory", "64MiB", *MOVE, "--name", "j", "--",
            "sh", "-c", f"echo begun; {' '.join(grow(90))}", stdout=stream, stderr=stream,
        )  # fmt: skip
    assert done.returncode == 75
    done = outgrow("resume", "j", "--memory", "300MiB")
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("begun", "OK")
    assert "saved and kept" in lines[1]


def test_input_that_the_job_left_is_there_for_the_next(outgrow: Outgrow) -> None:
    source = outgrow.directory / "in"
    source.write_text("1\n2\n3\n")
    with source.open("rb") as stdin:
        done = outgrow("run", "--", "sh", "-c", "read line; echo $line", stdin=stdin)
        assert done.stdout == "1\n"
        assert os.read(stdin.fileno(), 10) == b"2\n3\n"


@pytest.mark.parametrize("handed_over", [True, False])
def test_a_job_that_goes_back_reads_on_where_it_was_saved(
    outgrow: Outgrow, handed_over: bool
) -> None:
    source = outgrow.directory / "in"
    source.write_text("".join(f"{number}\n" for number in range(6)))
    program = """
import os, time
for number in range(6):
    line = b""
    while not line.endswith(b"\\n"):
        line += os.read(0, 1)
    print(line.decode(), end="", flush=True)
    while number in (1, 3) and not os.path.exists(f"go-{number}"):
        time.sleep(0.01)
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with source.open("rb") as stdin, running(outgrow.start(*words, stdin=stdin)) as process:
        assert [read_line(process) for _ in range(2)] == ["0\n", "1\n"]
        outgrow.wait_for("j", "running")
        assert outgrow("save", "j").returncode == 0
        (outgrow.directory / "go-1").touch()
        assert [read_line(process) for _ in range(2)] == ["2\n", "3\n"]
        kill_the_job(outgrow)
        assert process.wait(60) == 137
    (outgrow.directory / "go-3").touch()
    with source.open("rb") as stdin:
        options = {"stdin": stdin} if handed_over else {}
        done = outgrow("resume", "j", **options)
    assert (done.returncode, done.stdout) == (0, "2\n3\n4\n5\n"), done.stderr


def test_a_stream_file_that_is_gone_stops_the_resume_with_its_name(outgrow: Outgrow) -> None:
    log = outgrow.directory / "log"
    with log.open("wb") as stream:
        process = outgrow.start(
            "run", "--name", "j", "--", "sh", "-c", "echo on; sleep 2; echo off", stdout=stream
        )
        with running(process):
            wait_until(lambda: log.read_text() == "on\n")
            assert outgrow("save", "j", "--stop").returncode == 0
            process.wait(60)
    log.rename(log.with_name("elsewhere"))
    done = outgrow("resume", "j")
    assert (done.returncode, str(log) in done.stderr) == (10, True)
    log.with_name("elsewhere").rename(log)
    assert outgrow("resume", "j").returncode == 0
    assert log.read_text() == "on\noff\n"


def test_a_reader_that_goes_away_ends_the_job_as_it_would_have(outgrow: Outgrow) -> None:
    read, write = os.pipe()
    with running(outgrow.start("run", "--", "sh", "-c", "yes", stdout=write)) as process:
        os.close(write)
        os.read(read, 10)
        os.close(read)
        assert process.wait(60) == 128 + 13


def test_closed_streams_become_null_devices(outgrow: Outgrow) -> None:
    done = outgrow(
        "run", "--", "sh", "-c", "cat; echo lost; echo kept > kept",
        under=("sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-'),
    )  # fmt: skip
    assert done.returncode == 0
    assert (outgrow.directory / "kept").read_text() == "kept\n"


def test_a_socket_reaches_the_job_through_a_relay(outgrow: Outgrow) -> None:
    ours, theirs = socket.socketpair()
    with ours, running(outgrow.start(*_RUN, stdin=theirs, stdout=theirs)) as process:
        theirs.close()
        ours.sendall(_INPUT)
        ours.shutdown(socket.SHUT_WR)
        received = b""
        while piece := ours.recv(1 << 16):
            received += piece
        assert process.wait(60) == 0
    assert received.decode() == _EXPECTED
    assert len(outgrow.story("j")["incarnations"]) >= 2


def test_a_deleted_file_reaches_the_job_through_a_relay(outgrow: Outgrow) -> None:
    path = outgrow.directory / "gone"
    with path.open("w+b") as stdout:
        path.unlink()
        done = outgrow("run", "--memory", "64MiB", *MOVE, "--", *grow(90), stdout=stdout)
        assert done.returncode == 0
        stdout.seek(0)
        assert stdout.read() == b"OK\n"


def test_a_terminal_stays_a_terminal(outgrow: Outgrow) -> None:
    program = """
import os, sys
print("tty", [os.isatty(stream) for stream in range(3)], flush=True)
blocks = [bytearray(b"x" * (1 << 20)) for _ in range(110)]
print("you said", input(), flush=True)
"""
    run = ("run", "--memory", "100MiB", *MOVE, "--name", "j", "--", *python(program))
    pid, terminal = _on_a_terminal(outgrow, *run)
    _read_until(terminal, b"continues with 150 MiB")
    os.write(terminal, b"hello\n")
    shown = _read_until(terminal, b"you said hello")
    assert os.waitpid(pid, 0)[1] == 0
    assert b"you said hello" in shown
    os.close(terminal)
    assert len(outgrow.story("j")["incarnations"]) == 2


def test_an_interrupt_at_the_terminal_reaches_the_job(outgrow: Outgrow) -> None:
    trap = "trap 'echo caught; exit 3' INT; echo ready; sleep 60"
    pid, terminal = _on_a_terminal(outgrow, "run", "--", "sh", "-c", trap)
    _read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    _read_until(terminal, b"caught")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    os.close(terminal)


def test_the_window_of_a_terminal_changes_its_size_for_the_job(outgrow: Outgrow) -> None:
    program = """
import os, signal
def changed(*_):
    print("size", *os.get_terminal_size(), flush=True)
signal.signal(signal.SIGWINCH, changed)
changed()
while input() != "end":
    print("on", flush=True)
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    pid, terminal = _on_a_terminal(outgrow, *words)
    _read_until(terminal, b"size")
    outgrow.wait_for("j", "running")
    for columns, memory in ((100, "80MiB"), (120, "96MiB")):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        _read_until(terminal, b"size %d 30" % columns)
        assert outgrow("move", "j", "--memory", memory).returncode == 0
    os.write(terminal, b"end\n")
    _read_until(terminal, b"end")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


SHELL = """
import os, signal, sys, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    time.sleep(0.2)
    os.execv(sys.executable, [sys.executable, "-m", "outgrow", *sys.argv[1:]])
os.setpgid(job, job)
os.tcsetpgrp(0, job)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    with open("stops", "a") as file:
        file.write("x")
    while not os.path.exists("fg"):
        time.sleep(0.01)
    os.unlink("fg")
    os.killpg(job, signal.SIGCONT)
"""
"""What a shell with job control does with its one job."""


def test_control_z_stops_the_job_and_the_shell_has_its_terminal(outgrow: Outgrow) -> None:
    program = """
import os, time
print("ready", flush=True)
while not os.path.exists("end"):
    with open("ticks", "a") as file:
        file.write("x")
    time.sleep(0.01)
print("done", flush=True)
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    pid, terminal = _on_a_terminal(outgrow, *words, under=["-c", SHELL])
    _read_until(terminal, b"ready")
    outgrow.wait_for("j", "running")
    ticks, stops = outgrow.directory / "ticks", outgrow.directory / "stops"
    for number in range(1, 4):
        os.write(terminal, b"\x1a")
        wait_until(lambda number=number: stops.exists() and stops.stat().st_size == number)
        time.sleep(0.1)
        before = ticks.stat().st_size
        time.sleep(0.2)
        assert ticks.stat().st_size == before
        (outgrow.directory / "fg").touch()
        wait_until(lambda before=before: ticks.stat().st_size > before)
    assert outgrow("move", "j", "--memory", "96MiB").returncode == 0
    (outgrow.directory / "end").touch()
    _read_until(terminal, b"done")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


def test_control_z_stops_nothing_that_no_shell_could_continue(outgrow: Outgrow) -> None:
    program = "import time; print('ready', flush=True); time.sleep(2); print('done', flush=True)"
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    pid, terminal = _on_a_terminal(outgrow, *words)
    _read_until(terminal, b"ready")
    outgrow.wait_for("j", "running")
    os.write(terminal, b"\x1a")
    _read_until(terminal, b"done")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_resume_gives_the_job_the_streams_of_its_own_terminal(outgrow: Outgrow, kind: str) -> None:
    with running(outgrow.start(*_RUN, stdin=subprocess.PIPE)) as first:
        assert first.stdin is not None
        first.stdin.write(b"0\n1\n")
        first.stdin.flush()
        assert first.stdout is not None
        assert first.stdout.read(12) == b"got 0\ngot 1\n"
        assert outgrow("save", "j", "--stop").returncode == 0
        assert first.wait(60) == 75
    rest = _INPUT.split(b"\n", 2)[2]
    source = outgrow.directory / "rest"
    source.write_bytes(rest)
    # Apart, for they were two pipes: there is no order between what is written to either.
    targets = outgrow.directory / "out", outgrow.directory / "err"
    with source.open("rb") as stdin, targets[0].open("wb") as stdout, targets[1].open("wb") as err:
        if kind == "file":
            done = outgrow("resume", "j", stdin=stdin, stdout=stdout, stderr=err)
            out = targets[0].read_text() + targets[1].read_text()
        else:
            with running(outgrow.start("resume", "j", stdin=subprocess.PIPE)) as second:
                both = second.communicate(rest, timeout=60)
            out = (both[0] + both[1]).decode()
            done = subprocess.CompletedProcess([], second.returncode)
    assert done.returncode == 0, out
    assert out == _EXPECTED.split("\n", 2)[2] + f"end {_COUNT}\n"
    assert len(outgrow.story("j")["incarnations"]) >= 3


def _on_a_terminal(
    outgrow: Outgrow, *words: str, under: Sequence[str] = ("-m", "outgrow")
) -> tuple[int, int]:
    """PID of `outgrow WORDS`, and the other side of the terminal that it has."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(outgrow.directory)
        os.environ["OUTGROW_STATE_DIR"] = str(outgrow.state)
        os.execv(sys.executable, [sys.executable, *under, *words])
    return pid, terminal


def _read_until(terminal: int, text: bytes) -> bytes:
    shown, end = b"", time.monotonic() + 60
    while text not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # EIO: the other side has closed
                break
    assert text in shown, shown
    return shown
