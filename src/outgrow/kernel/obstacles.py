"""Looking in /proc for what keeps processes from being saved."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import sys
import termios
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from outgrow import libc
from outgrow.core.obstacles import TRACED, UNREAD_EVENTS, Held, Obstacle, obstacle_in
from outgrow.kernel.files import read
from outgrow.kernel.proc import PROC


def find_obstacles(pids: Iterable[int], proc: Path = PROC) -> list[Obstacle]:
    """One of each kind for each process. Processes that end meanwhile have none."""
    found: dict[tuple[int, str], Obstacle] = {}
    for pid in pids:
        for what, remedy in (*_descriptors(pid, proc / str(pid)), *_tracer(proc / str(pid))):
            passes = what == UNREAD_EVENTS[0]
            found.setdefault((pid, what), Obstacle(pid, what, remedy, passes))
    return list(found.values())


def _descriptors(pid: int, process: Path) -> Iterator[tuple[str, str]]:
    try:
        numbers = os.listdir(process / "fd")
    except OSError:
        return
    for number in numbers:
        opened = process / "fd" / number
        try:
            held = _held(pid, int(number), os.readlink(opened), opened.stat())
            if held.link == "anon_inode:inotify" and _unread(pid, int(number)):
                yield UNREAD_EVENTS
        except OSError:
            continue
        reason = obstacle_in(held)
        if reason is not None:
            yield reason


def _held(pid: int, number: int, link: str, status: os.stat_result) -> Held:
    device = (os.major(status.st_rdev), os.minor(status.st_rdev))
    if not stat.S_ISSOCK(status.st_mode):
        return Held(link, status.st_mode, device)
    family, protocol = _socket(pid, number)
    return Held(link, status.st_mode, device, family, protocol)


def _socket(pid: int, number: int) -> tuple[int, int]:
    try:
        with _copy(pid, number) as descriptor, socket.socket(fileno=os.dup(descriptor)) as copy:
            return copy.family, copy.proto
    except OSError:
        return 0, 0


def _unread(pid: int, number: int) -> int:
    """Bytes that wait in it (ioctl(2), FIONREAD)."""
    with _copy(pid, number) as descriptor:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


@contextmanager
def _copy(pid: int, number: int) -> Iterator[int]:
    """A copy of another process's descriptor."""
    pidfd = os.pidfd_open(pid)
    try:
        descriptor = libc.pidfd_getfd(pidfd, number)
    finally:
        os.close(pidfd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _tracer(process: Path) -> Iterator[tuple[str, str]]:
    """Not CRIU, ours or somebody else's, which traces only while it works."""
    try:
        match = re.search(r"^TracerPid:\s*(\d+)", read(process / "status"), re.MULTILINE)
        if match is None or match.group(1) == "0":
            return
        if read(process.parent / match.group(1) / "comm") == "criu":
            return
    except OSError:
        return
    yield TRACED
