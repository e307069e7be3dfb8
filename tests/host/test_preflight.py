"""A job that cannot be saved is told so early, runs on, and comes to its own end."""

from __future__ import annotations

import json
import platform
import subprocess
import time

import pytest

from tests.host.kit import Outgrow, python, read_line, running, wait_until

HOLD = """
import sys
{opened}
print("on", flush=True)
sys.stdin.readline()
print("went on")
"""
RING = HOLD.replace(
    "{opened}",
    """
import ctypes
ring = ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120))  # io_uring_setup
assert ring >= 0, "io_uring is switched off here"
""",
)
HYPERVISOR = HOLD.replace(
    "{opened}",
    """
import socket
held = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
""",
)
COUNTER = HOLD.replace(
    "{opened}",
    """
import ctypes, struct
attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 1) + bytes(112))  # task clock
held = ctypes.CDLL(None).syscall(298, attributes, 0, -1, -1, 0)  # perf_event_open
assert held >= 0, "perf events are switched off here"
""",
)


def cannot_be_saved(outgrow: Outgrow, command: list[str], word: str) -> None:
    """It is said on standard error by itself, by `doctor --job`, and by `save`; and it runs on."""
    words = ("run", "--memory", "128MiB", "--name", "j", "--", *command)
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        line = read_line(process)
        if line != "on\n":
            assert process.stderr is not None
            pytest.skip(f"needs {word}: {process.stderr.read().decode()[-200:]}")
        outgrow.wait_for("j", "running")
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        assert said.startswith("outgrow: j cannot be saved now: process ")
        assert word in said
        done = outgrow("doctor", "--job", "j")
        assert done.returncode == 13
        assert word in done.stdout
        assert "remedy: " in done.stdout
        story = json.loads(outgrow("doctor", "--job", "j", "--json").stdout)
        assert word in story["obstacles"][0]["what"]
        done = outgrow("save", "j")
        assert done.returncode == 13
        assert word in done.stderr
        out, _ = process.communicate(b"go\n", timeout=60)
    assert (out, process.returncode) == (b"went on\n", 0)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64's system call numbers")
@pytest.mark.parametrize(
    ("program", "word"),
    [
        pytest.param(RING, "io_uring", id="io_uring"),
        pytest.param(HYPERVISOR, "AF_VSOCK", id="a socket that CRIU refuses"),
        pytest.param(COUNTER, "performance counter", id="perf"),
    ],
)
def test_what_cannot_be_saved_is_named_early(outgrow: Outgrow, program: str, word: str) -> None:
    cannot_be_saved(outgrow, python(program), word)


def test_a_container_inside_of_the_job_is_named(outgrow: Outgrow) -> None:
    """CRIU writes it down, and could never bring it back."""
    program = """
import subprocess, sys
inner = subprocess.Popen(["unshare", "--net", "sleep", "600"])
print("on", flush=True)
sys.stdin.readline()
inner.kill()
print("went on")
"""
    cannot_be_saved(outgrow, python(program), "network namespace")


def test_system_v_memory_is_named_and_saved_in_a_namespace_of_its_own(outgrow: Outgrow) -> None:
    program = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
number = libc.shmget(0, 8192, 0o1600)
memory = libc.shmat(number, None, 0)
libc.shmctl(number, 0, None)
ctypes.memmove(memory, b"kept", 4)
print("on", flush=True)
sys.stdin.readline()
assert ctypes.string_at(memory, 4) == b"kept"
print("went on")
"""
    cannot_be_saved(outgrow, python(program), "System V")
    words = ("run", "--memory", "64MiB", "--name", "i", "--", "unshare", "--ipc", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        assert read_line(process) == "on\n"
        outgrow.wait_for("i", "running")
        done = outgrow("move", "i", "--memory", "96MiB")
        assert done.returncode == 0, done.stderr
        out, _ = process.communicate(b"go\n", timeout=60)
    assert (out, process.returncode) == (b"went on\n", 0)


def test_a_traced_program_is_named(outgrow: Outgrow) -> None:
    program = """
import ctypes, os, sys
child = os.fork()
if child == 0:
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)  # PTRACE_TRACEME
    os.kill(os.getpid(), 19)
    os._exit(0)
os.waitpid(child, os.WUNTRACED)
print("on", flush=True)
sys.stdin.readline()
os.kill(child, 9)
os.waitpid(child, 0)
print("went on")
"""
    cannot_be_saved(outgrow, python(program), "tracer")


def test_at_its_limit_the_next_rung_holds(outgrow: Outgrow) -> None:
    program = """
import ctypes, sys
assert ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(120)) >= 0
block = bytearray(b"x" * (100 << 20))
print("OK")
"""
    words = ("--memory", "64MiB", "--max-memory", "256MiB", "--on-limit", "move,grow")
    done = outgrow("run", *words, "--name", "j", "--", *python(program))
    if "AssertionError" in done.stderr:
        pytest.skip("needs io_uring: sysctl kernel.io_uring_disabled=0")
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    story = outgrow.story("j")
    assert len(story["incarnations"]) == 1
    assert {save["outcome"] for save in story["saves"]} == {"thawed"}


def test_nothing_is_found_in_an_ordinary_job(outgrow: Outgrow) -> None:
    program = "print('on', flush=True); input()"
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words, stdin=subprocess.PIPE)) as process:
        assert read_line(process) == "on\n"
        outgrow.wait_for("j", "running")
        done = outgrow("doctor", "--job", "j")
        assert done.returncode == 0
        assert "Nothing is known" in done.stdout
        process.communicate(b"\n", timeout=60)
    assert "does not run now" in outgrow("doctor", "--job", "j").stdout
    assert outgrow("doctor", "--job", "nosuchjob").returncode == 10


def is_waited_for(outgrow: Outgrow, program: str, word: str) -> None:
    """A save gives up after a second; a move waits until the program, which is told to `go` on, has
    nothing of the kind any more; and it comes to its `end`."""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words)) as process:
        assert read_line(process) == "on\n"
        outgrow.wait_for("j", "running")
        done = outgrow("save", "j")
        assert (done.returncode, word in done.stderr) == (75, True), done.stderr
        with running(outgrow.start("move", "j", "--memory", "128MiB")) as moved:
            time.sleep(0.3)
            (outgrow.directory / "go").touch()
            _, err = moved.communicate(timeout=60)
            assert moved.returncode == 0, err
        assert read_line(process) == "went on\n"
        (outgrow.directory / "end").touch()
        assert process.wait(60) == 0


VFORK = """
import ctypes, os, platform
def vfork(child):
    flags = 0x4000 | 17  # CLONE_VFORK, SIGCHLD
    words = (0, flags, 0, 0, 0) if platform.machine() == "s390x" else (flags, 0, 0, 0, 0)
    pid = ctypes.CDLL(None).syscall({"x86_64": 56, "aarch64": 220}[platform.machine()], *words)
    if pid == 0:
        child()
        os._exit(0)
    return pid
"""
"""vfork(2) as a program calls it, but for the memory, which the child has for itself: the parent
waits in the kernel until the child is done."""


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="needs the number of clone(2) here"
)
def test_a_parent_in_vfork_is_waited_for(outgrow: Outgrow) -> None:
    program = f"""{VFORK}
import time
def child():
    print("on", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
    os._exit(0)
os.waitpid(vfork(child), 0)
print("went on", flush=True)
while not os.path.exists("end"):
    time.sleep(0.01)
"""
    is_waited_for(outgrow, program, "vfork")


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="needs the number of clone(2) here"
)
def test_at_the_limit_it_is_let_on_until_its_child_is_on_its_way(outgrow: Outgrow) -> None:
    program = f"""{VFORK}
import sys, time
full, near = os.pipe()
def child():
    os.read(full, 1)
    for _ in range(20):
        time.sleep(0.001)
if os.fork() == 0:
    os.waitpid(vfork(child), 0)
    os._exit(0)
blocks = [bytearray(b"x" * (8 << 20)) for _ in range(3)]
os.write(near, b"x")
blocks += [bytearray(b"x" * (8 << 20)) for _ in range(20)]
print("OK", os.waitstatus_to_exitcode(os.wait()[1]))
"""
    words = ("--memory", "64MiB", "--max-memory", "1GiB", "--on-limit", "move")
    done = outgrow("run", *words, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "OK 0\n"), done.stderr
    story = outgrow.story("j")
    assert len(story["incarnations"]) > 1
    assert {save["outcome"] for save in story["saves"]} == {"moved"}
    assert "let-on" in outgrow.steps("j")


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="needs the number of clone(2) here"
)
def test_outgrow_is_killed_while_a_job_at_its_limit_is_let_on(outgrow: Outgrow) -> None:
    """PID 1 gives it back to the kernel, under its limit, and it comes to its end."""
    program = f"""{VFORK}
import time
full, near = os.pipe()
def child():
    os.read(full, 1)
    for _ in range(20):
        time.sleep(0.001)
if os.fork() == 0:
    os.waitpid(vfork(child), 0)
    os._exit(0)
blocks = [bytearray(b"x" * (1 << 20)) for _ in range(30)]
os.write(near, b"x")
blocks += [bytearray(b"x" * (1 << 20)) for _ in range(12)]
while not os.path.exists("end"):
    time.sleep(0.01)
print("OK", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
    words = (
        "run",
        "--memory",
        "64MiB",
        "--max-memory",
        "1GiB",
        "--on-limit",
        "move",
        "--name",
        "j",
    )
    process = outgrow.start(*words, "--", *python(program), fault="kill@let-on")
    with running(process):
        assert process.wait(60) == -9
        # cgroup v1; on v2 the limit stays above what the job was given (CgroupV2.undo).
        for limit in [
            path / "memory.limit_in_bytes"
            for path in outgrow.cgroups(outgrow.jobs()["j"]["id"])
            if (path / "memory.limit_in_bytes").exists()
        ]:
            wait_until(lambda limit=limit: int(limit.read_text()) == 64 << 20, patience=3.0)
            assert "oom_kill_disable 0" in (limit.parent / "memory.oom_control").read_text()
        (outgrow.directory / "end").touch()
        assert read_line(process) == "OK 0\n"
        outgrow.wait_for("j", "ended")


def test_a_connection_that_is_not_accepted_is_waited_for(outgrow: Outgrow) -> None:
    program = """
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
print("on", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
server, _ = listener.accept()
client.sendall(b"went on")
print(server.recv(100).decode(), flush=True)
while not os.path.exists("end"):
    time.sleep(0.01)
client.sendall(b"to its end")
print(server.recv(100).decode())
"""
    words = ("run", "--memory", "64MiB", "--name", "j", "--", *python(program))
    with running(outgrow.start(*words)) as process:
        assert read_line(process) == "on\n"
        outgrow.wait_for("j", "running")
        done = outgrow("save", "j")
        assert (done.returncode, "not accepted" in done.stderr) == (75, True), done.stderr
        (outgrow.directory / "go").touch()
        assert read_line(process) == "went on\n"
        done = outgrow("move", "j", "--memory", "128MiB")
        assert done.returncode == 0, done.stderr
        (outgrow.directory / "end").touch()
        assert read_line(process) == "to its end\n"
        assert process.wait(60) == 0


def test_at_the_limit_a_connection_that_nobody_accepts_is_lost_and_the_job_is_not(
    outgrow: Outgrow,
) -> None:
    program = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.setblocking(False)
client.connect_ex(listener.getsockname())
blocks = [bytearray(b"x" * (8 << 20)) for _ in range(30)]
print("OK")
"""
    words = ("--memory", "128MiB", "--max-memory", "1GiB", "--on-limit", "move")
    done = outgrow("run", *words, "--name", "j", "--", *python(program))
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stderr
    assert "saved without what no engine keeps" in done.stderr
    assert "not accepted" in done.stderr


def test_a_file_of_its_own_cgroup_is_waited_for(outgrow: Outgrow) -> None:
    program = """
import os, time
lines = [line.rstrip().split(":") for line in open("/proc/self/cgroup")]
unified = "/sys/fs/cgroup" + [path for _, kinds, path in lines if not kinds][-1]
own = ["/sys/fs/cgroup/memory" + path for _, kinds, path in lines if kinds == "memory"] or [unified]
with open(own[0] + "/memory.stat") as held:
    print("on", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
print("went on", flush=True)
while not os.path.exists("end"):
    time.sleep(0.01)
"""
    is_waited_for(outgrow, program, "its own cgroup")
