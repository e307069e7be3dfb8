"""Obstacles of a process, by the example of this one."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

import pytest

from outgrow.kernel.obstacles import find_obstacles


def kinds() -> set[str]:
    return {obstacle.what for obstacle in find_obstacles([os.getpid()])}


def test_an_ordinary_process_has_none(tmp_path: Path) -> None:
    pair = socket.socketpair()
    with (tmp_path / "file").open("wb"), pair[0], pair[1]:
        assert kinds() == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors of sockets: run it as root")
def test_a_socket_is_known_by_its_protocol() -> None:
    try:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    except OSError:
        pytest.skip("needs multipath TCP: sysctl net.mptcp.enabled=1")
    with held:
        assert kinds() == {"a multipath TCP socket"}
    assert kinds() == set()


def test_who_is_traced_says_so(tmp_path: Path) -> None:
    process = tmp_path / "7"
    (process / "fd").mkdir(parents=True)
    (process / "status").write_text("Name:\tx\nTracerPid:\t31\n")
    (obstacle,) = find_obstacles([7], tmp_path)
    assert (obstacle.pid, obstacle.what) == (7, "a tracer that follows it")
    (process / "status").write_text("Name:\tx\nTracerPid:\t0\n")
    assert find_obstacles([7], tmp_path) == []


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    assert find_obstacles([7], tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors: run it as root")
def test_events_that_were_not_read_pass(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    libc.inotify_add_watch(watch, os.fsencode(tmp_path), 0x100)
    assert kinds() == set()
    (tmp_path / "new").touch()
    (obstacle,) = find_obstacles([os.getpid()])
    assert obstacle.passes
    assert os.read(watch, 4096)
    assert kinds() == set()
    os.close(watch)
