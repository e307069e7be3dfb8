"""Looking in /proc for what keeps processes from being saved."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from outgrow import libc
from outgrow.core.obstacles import TRACED, Held, Obstacle, obstacle_in
from outgrow.kernel.files import read
from outgrow.kernel.proc import PROC


def find_obstacles(pids: Iterable[int], proc: Path = PROC) -> list[Obstacle]:
    """One of each kind for each process. Processes that end meanwhile have none."""
    found: dict[tuple[int, str], Obstacle] = {}
    for pid in pids:
        for what, remedy in (*_descriptors(pid, proc / str(pid)), *_tracer(proc / str(pid))):
            found.setdefault((pid, what), Obstacle(pid, what, remedy))
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
        pidfd = os.pidfd_open(pid)
    except OSError:
        return 0, 0
    try:
        with socket.socket(fileno=libc.pidfd_getfd(pidfd, number)) as copy:
            return copy.family, copy.proto
    except OSError:
        return 0, 0
    finally:
        os.close(pidfd)


def _tracer(process: Path) -> Iterator[tuple[str, str]]:
    try:
        match = re.search(r"^TracerPid:\s*(\d+)", read(process / "status"), re.MULTILINE)
    except OSError:
        return
    if match is not None and match.group(1) != "0":
        yield TRACED
