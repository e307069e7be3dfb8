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
from outgrow.core.obstacles import (
    PASSING,
    TRACED,
    UNREAD_DATAGRAMS,
    UNREAD_EVENTS,
    Held,
    Obstacle,
    obstacle_in,
)
from outgrow.kernel.files import read
from outgrow.kernel.proc import PROC, descriptors


def find_obstacles(pids: Iterable[int], proc: Path = PROC) -> list[Obstacle]:
    """One of each kind for each process. Processes that end meanwhile have none."""
    found: dict[tuple[int, str], Obstacle] = {}
    for pid in pids:
        for what, remedy in (*_descriptors(pid, proc), *_tracer(proc / str(pid))):
            passes = (what, remedy) in PASSING
            found.setdefault((pid, what), Obstacle(pid, what, remedy, passes))
    return list(found.values())


def _descriptors(pid: int, proc: Path) -> Iterator[tuple[str, str]]:
    for number in descriptors(pid, proc):
        opened = proc / str(pid) / "fd" / str(number)
        try:
            link, status = os.readlink(opened), opened.stat()
            if stat.S_ISSOCK(status.st_mode):
                with _copy(pid, number) as copy:
                    reason = _in_socket(copy, link, status.st_mode)
            elif link == "anon_inode:inotify":
                with _copy(pid, number) as copy:
                    reason = UNREAD_EVENTS if _unread(copy) else None
            else:
                reason = obstacle_in(Held(link, status.st_mode))
        except OSError:
            continue
        if reason is not None:
            yield reason


def _in_socket(descriptor: int, link: str, mode: int) -> tuple[str, str] | None:
    held = socket.socket(fileno=descriptor)
    family, kind, protocol = held.family, held.type, held.proto
    held.detach()
    if (
        family in (socket.AF_INET, socket.AF_INET6)
        and kind == socket.SOCK_DGRAM
        and _unread(descriptor)
    ):
        return UNREAD_DATAGRAMS
    return obstacle_in(Held(link, mode, family, protocol))


def _unread(descriptor: int) -> int:
    """Bytes that wait in it (ioctl(2), FIONREAD)."""
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
    try:
        match = re.search(r"^TracerPid:\s*(\d+)", read(process / "status"), re.MULTILINE)
    except OSError:
        return
    if match is not None and match.group(1) != "0":
        yield TRACED
