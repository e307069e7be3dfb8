"""A job that cannot be saved is told so early, runs on, and comes to its own end."""

from __future__ import annotations

import json
import platform
import subprocess

import pytest

from tests.host.kit import Outgrow, python, read_line, running

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
