"""Jobs that make it hard to be saved."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.host.kit import MOVE, Outgrow, python, read_line, running, wait_until

FORKING = """
import os, sys, time
print("on", flush=True)
count, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        os._exit(count % 7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == count % 7
    count += 1
print("forked", count > 100)
"""


def test_a_job_that_forks_without_end_is_moved_again_and_again(outgrow: Outgrow) -> None:
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(FORKING, "6"))
    with running(outgrow.start(*words)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        for memory in ("80MiB", "96MiB", "64MiB"):
            done = outgrow("move", "j", "--memory", memory)
            assert done.returncode == 0, done.stderr
        assert read_line(process) == "forked True\n"
        assert process.wait(60) == 0
    assert len(outgrow.story("j")["incarnations"]) == 4


def test_a_job_that_is_stopped_stays_stopped_over_a_move(outgrow: Outgrow) -> None:
    program = "import os, signal; print('on', flush=True); os.kill(os.getpid(), 19); print('off')"
    with running(
        outgrow.start("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    ) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        job = outgrow.jobs()["j"]["id"]
        wait_until(lambda: _states(outgrow, job) == ["T"])
        assert outgrow("move", "j", "--memory", "96MiB").returncode == 0
        assert wait_until(lambda: _states(outgrow, job)) == ["T"]
        process.send_signal(signal.SIGCONT)
        assert read_line(process) == "off\n"
        assert process.wait(60) == 0


def test_zombies_are_still_to_be_reaped_after_a_move(outgrow: Outgrow) -> None:
    program = """
import os, sys
pids = []
for status in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(status)
    pids.append(pid)
for pid in pids:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print("all are zombies", flush=True)
sys.stdin.readline()
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == list(range(20)))
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        done = outgrow("move", "j", "--memory", "96MiB")
        assert done.returncode == 0, done.stderr
        out, _ = process.communicate(b"go\n", timeout=60)
    assert out == b"True\n"


def test_a_job_that_ignores_every_signal_it_can_is_moved(outgrow: Outgrow) -> None:
    program = """
import signal, sys
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
print("on", flush=True)
sys.stdin.readline()
print("went on")
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        process.terminate()
        assert outgrow("move", "j", "--memory", "96MiB").returncode == 0
        out, _ = process.communicate(b"go\n", timeout=60)
    assert (out, process.returncode) == (b"went on\n", 0)


def test_a_tree_of_processes_and_threads_is_moved_at_its_limit(outgrow: Outgrow) -> None:
    program = """
import os, sys, threading
def grow(mib):
    return [os.urandom(1 << 20) for _ in range(mib)]
children = []
for child in range(12):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        kept = []
        threads = [threading.Thread(target=lambda: kept.append(grow(2))) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        os.write(write, b"%d" % sum(len(blocks) for blocks in kept))
        os._exit(0)
    children.append((pid, read))
print(sum(int(os.read(read, 10)) for _, read in children))
print({os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children})
"""
    done = outgrow("run", "--memory", "64MiB", *MOVE, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "96\n{0}\n"), done.stderr
    assert len(outgrow.story("j")["incarnations"]) >= 2


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_a_job_that_ends_by_itself_around_a_save(outgrow: Outgrow, delay: float) -> None:
    """Saved or not, its own status and output count."""
    program = (
        "import sys; print('on', flush=True); sys.stdin.readline(); print('done'); sys.exit(9)"
    )
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        with running(outgrow.start("save", "j")) as save:
            wait_until(lambda: save.poll() is not None or _is_busy(outgrow))
            time.sleep(delay)
            out, _ = process.communicate(b"go\n", timeout=60)
            assert save.wait(60) in (0, 10, 13, 75)
            assert b"Traceback" not in (save.stderr.read() if save.stderr else b"")
    assert (out, process.returncode) == (b"done\n", 9)
    story = outgrow.story("j")
    assert (story["state"], story["exit_status"], story["checkpoints"]) == ("ended", 9, [])


def test_a_deleted_file_and_a_tcp_connection_inside_the_job(outgrow: Outgrow) -> None:
    program = """
import os, socket, sys, tempfile
file = tempfile.TemporaryFile(dir=".")
file.write(b"kept " * 1000); file.flush()
server = socket.create_server(("127.0.0.1", 0))
here = socket.create_connection(server.getsockname())
there, _ = server.accept()
here.sendall(b"on its way")
print("on", flush=True)
sys.stdin.readline()
file.seek(0)
print(file.read() == b"kept " * 1000, there.recv(100), os.fstat(file.fileno()).st_nlink)
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        done = outgrow("move", "j", "--memory", "96MiB")
        assert done.returncode == 0, done.stderr
        out, _ = process.communicate(b"go\n", timeout=60)
    assert out == b"True b'on its way' 0\n"


def test_sockets_full_of_what_nobody_has_read(outgrow: Outgrow) -> None:
    """They are most of the job. CRIU holds all of it twice while it brings the job back."""
    program = """
import os, socket, zlib
pairs, sent, got = [], 0, 0
while len(pairs) < 24:
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, 32, 4 << 20)  # SO_SNDBUFFORCE
    here.setblocking(False)
    pairs.append((here, there))
    piece = os.urandom(1 << 16)
    try:
        while True:
            sent = zlib.crc32(piece[: here.send(piece)], sent)
    except BlockingIOError:
        here.shutdown(socket.SHUT_WR)
for here, there in pairs:
    while piece := there.recv(1 << 16):
        got = zlib.crc32(piece, got)
print(sent == got)
"""
    done = outgrow("run", "--memory", "64MiB", *MOVE, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert len(outgrow.story("j")["incarnations"]) >= 3


def test_a_job_that_cannot_be_saved_runs_on_and_the_reason_is_named(outgrow: Outgrow) -> None:
    """An open device that no engine can save."""
    program = """
import os, sys
device = os.open("/dev/fuse", os.O_RDWR)
print("on", flush=True)
sys.stdin.readline()
print("went on")
"""
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse here: load the module fuse")
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        read_line(process)
        outgrow.wait_for("j", "running")
        done = outgrow("save", "j")
        assert done.returncode == 13
        assert "FUSE" in done.stderr
        out, _ = process.communicate(b"go\n", timeout=60)
    assert (out, process.returncode) == (b"went on\n", 0)
    assert list(Path(outgrow.state, "store").rglob("*.partial")) == []


def _states(outgrow: Outgrow, job: str) -> list[str]:
    found = []
    for pid in outgrow.processes(job):
        try:
            found.append(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return found


def _is_busy(outgrow: Outgrow) -> bool:
    return bool(list(outgrow.state.rglob("*.partial")))


DAEMON = """
import os, sys, time
twice = sys.argv[1] == "twice"
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        if twice and os.fork() > 0:
            os._exit(0)
        print("ready", flush=True)
        number = 0
        while not os.path.exists("end"):
            number += 1
            with open("ticks", "a") as file:
                file.write(f"{number}\\n")
            time.sleep(0.02)
        os._exit(0)
    os._exit(0)
os.wait()
time.sleep(0.1)
if "reap" in sys.argv:
    os.waitpid(-1, os.WNOHANG)
while not os.path.exists("end"):
    time.sleep(0.02)
print("end", *[os.wait()[1] for _ in range("once" in sys.argv)])
"""


def _ticks(outgrow: Outgrow) -> list[int]:
    path = outgrow.directory / "ticks"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_daemon_that_the_job_started_moves_with_it(outgrow: Outgrow) -> None:
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(DAEMON, "once"))
    with running(outgrow.start(*words)) as process:
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        for memory in ("80MiB", "96MiB", "112MiB"):
            before = len(_ticks(outgrow))
            done = outgrow("move", "j", "--memory", memory)
            assert done.returncode == 0, done.stderr
            wait_until(lambda before=before: len(_ticks(outgrow)) > before + 2)
        (outgrow.directory / "end").touch()
        assert process.communicate(timeout=60)[0] == b"end 0\n"
    ticks = _ticks(outgrow)
    assert ticks == list(range(1, len(ticks) + 1))


def test_one_that_forked_twice_is_named_and_not_lost(outgrow: Outgrow) -> None:
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(DAEMON, "twice"))
    with running(outgrow.start(*words)) as process:
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        done = outgrow("move", "j", "--memory", "80MiB")
        assert (done.returncode, "session whose leader" in done.stderr) == (13, True)
        before = len(_ticks(outgrow))
        wait_until(lambda: len(_ticks(outgrow)) > before)
        (outgrow.directory / "end").touch()
        assert process.communicate(timeout=60)[0] == b"end\n"


def test_one_that_forked_twice_and_whose_leader_is_gone_moves_once(outgrow: Outgrow) -> None:
    """After that it is PID 1's child (CRIU leaves it to that), and no save would hold it."""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(DAEMON, "twice", "reap"))
    with running(outgrow.start(*words)) as process:
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        time.sleep(0.3)
        done = outgrow("move", "j", "--memory", "80MiB")
        assert done.returncode == 0, done.stderr
        before = len(_ticks(outgrow))
        wait_until(lambda: len(_ticks(outgrow)) > before)
        done = outgrow("move", "j", "--memory", "96MiB")
        assert (done.returncode, "apart from the job's" in done.stderr) == (13, True)
        before = len(_ticks(outgrow))
        wait_until(lambda: len(_ticks(outgrow)) > before)
        (outgrow.directory / "end").touch()
        assert process.communicate(timeout=60)[0] == b"end\n"


def test_a_connection_to_the_outside_is_reset_by_a_move_and_one_inside_is_not(
    outgrow: Outgrow,
) -> None:
    program = """
import socket, sys
outside = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
listener = socket.create_server(("127.0.0.1", 0))
inside = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
print("ready", flush=True)
try:
    print("outside:", outside.recv(10), flush=True)
except ConnectionResetError:
    print("outside: reset", flush=True)
inside.sendall(b"still there")
print("inside:", server.recv(20).decode())
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program, port))
        with running(outgrow.start(*words)) as process, listener.accept()[0] as peer:
            assert read_line(process) == "ready\n"
            outgrow.wait_for("j", "running")
            assert outgrow("save", "j").returncode == 0
            peer.settimeout(0.3)
            with pytest.raises(TimeoutError):
                peer.recv(10)
            done = outgrow("move", "j", "--memory", "96MiB")
            assert done.returncode == 0, done.stderr
            out, err = process.communicate(timeout=60)
    assert out == b"outside: reset\ninside: still there\n", err.decode()


def test_a_port_that_is_taken_meanwhile_is_named(outgrow: Outgrow) -> None:
    program = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(1)
print("listens", listener.getsockname()[1])
"""
    with running(outgrow.start("run", "--name", "j", "--", *python(program))) as process:
        port = int(read_line(process))
        outgrow.wait_for("j", "running")
        assert outgrow("save", "j", "--stop").returncode == 0
        process.wait(60)
    with socket.create_server(("127.0.0.1", port)):
        done = outgrow("resume", "j")
        assert done.returncode == 75
        assert f"listens at 127.0.0.1:{port} now" in done.stderr
    done = outgrow("resume", "j")
    assert (done.returncode, done.stdout) == (0, f"listens {port}\n"), done.stderr


def test_a_job_that_writes_to_the_system_log_still_does_after_a_move(outgrow: Outgrow) -> None:
    program = """
import socket, sys
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.connect("log")
log.send(b"before")
print("ready", flush=True)
sys.stdin.readline()
log.send(b"after")
"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(outgrow.directory / "log"))
        log.settimeout(30)
        words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
        with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
            assert read_line(process) == "ready\n"
            outgrow.wait_for("j", "running")
            assert log.recv(10) == b"before"
            done = outgrow("move", "j", "--memory", "96MiB")
            assert done.returncode == 0, done.stderr
            process.communicate(b"go\n", timeout=60)
        assert log.recv(10) == b"after"


def test_zombies_whose_numbers_an_engine_might_take(outgrow: Outgrow) -> None:
    """The first numbers that are free for it, but for them."""
    program = """
import os, sys
zombies = []
while len(zombies) < 20:
    pid = os.fork()
    if pid == 0:
        os._exit(len(zombies))
    if pid > 300:
        zombies.append(pid)
    else:
        os.waitpid(pid, 0)
print("ready", flush=True)
sys.stdin.readline()
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in zombies] == [*range(20)])
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        assert read_line(process) == "ready\n"
        outgrow.wait_for("j", "running")
        for memory in ("80MiB", "96MiB"):
            done = outgrow("move", "j", "--memory", memory)
            assert done.returncode == 0, done.stderr
        assert process.communicate(b"go\n", timeout=60)[0] == b"True\n"
