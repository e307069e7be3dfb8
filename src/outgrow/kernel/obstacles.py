"""Looking in /proc for what keeps processes from being saved."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import stat
import struct
import sys
import termios
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from outgrow import libc
from outgrow.core.obstacles import (
    DEAD_SESSION,
    LEFT,
    NOT_ACCEPTED,
    TRACED,
    UNREAD_DATAGRAMS,
    UNREAD_EVENTS,
    VFORK,
    Held,
    Obstacle,
    Reason,
    obstacle_in,
)
from outgrow.kernel.files import read
from outgrow.kernel.proc import PROC, descriptors, kinship

_SO_DOMAIN, _SO_PROTOCOL = 39, 38
"""socket(7); Python has no names for them."""
_TCP_INFO = "B23xI"
"""Of struct tcp_info (linux/tcp.h): tcpi_state and tcpi_unacked."""
_TCP_LISTEN = 10
_IN_VFORK = frozenset({"kernel_clone", "wait_for_vfork_done", "_do_fork"})
"""Functions in which a parent waits (kernel/fork.c, by its age)."""


def find_obstacles(pids: Iterable[int], proc: Path = PROC) -> list[Obstacle]:
    """One of each kind for each process. Processes that end meanwhile have none. No file of the
    job's is looked at, whose server may be gone."""
    found: dict[tuple[int, str], Obstacle] = {}
    pids = list(pids)
    for pid in pids:
        for reason in (*_in_descriptors(pid, proc), *_in_tasks(proc / str(pid))):
            found.setdefault((pid, reason.what), Obstacle(pid, reason))
    return [*found.values(), *_in_tree(pids, proc)]


def _in_tree(pids: Sequence[int], proc: Path) -> Iterator[Obstacle]:
    """The job is the oldest process that has its parent elsewhere, and what descends from it."""
    family = {pid: kin for pid in pids if (kin := kinship(pid, proc)) is not None}
    tops = [pid for pid, kin in family.items() if kin.parent not in pids]
    if not tops:
        return
    root = min(tops, key=lambda pid: (family[pid].start, pid))
    for pid, kin in family.items():
        if pid == root:
            continue
        if pid in tops:
            yield Obstacle(pid, LEFT)
        elif kin.session not in (pid, family[root].session, *pids):
            leader = kinship(kin.session, proc)
            if leader is not None and leader.state == "Z":
                yield Obstacle(pid, DEAD_SESSION)


def _in_descriptors(pid: int, proc: Path) -> Iterator[Reason]:
    for number in descriptors(pid, proc):
        opened = proc / str(pid) / "fd" / str(number)
        try:
            link = os.readlink(opened)
            if link.startswith("socket:"):
                with _copy(pid, number) as copy:
                    reason = _in_socket(copy, link)
            elif link == "anon_inode:inotify":
                with _copy(pid, number) as copy:
                    reason = UNREAD_EVENTS if _unread(copy) else None
            elif link.startswith("/dev/"):
                reason = obstacle_in(Held(link, opened.stat().st_mode))
            else:
                reason = obstacle_in(Held(link))
        except OSError:
            continue
        if reason is not None:
            yield reason


def _in_socket(descriptor: int, link: str) -> Reason | None:
    # Of a family that Python is told: it would ask for a name, which not every socket has.
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        family, kind, protocol = (
            held.getsockopt(socket.SOL_SOCKET, option)
            for option in (_SO_DOMAIN, socket.SO_TYPE, _SO_PROTOCOL)
        )
        if family in (socket.AF_INET, socket.AF_INET6):
            if kind == socket.SOCK_DGRAM and _unread(descriptor):
                return UNREAD_DATAGRAMS
            if protocol == socket.IPPROTO_TCP and _has_not_accepted(held):
                return NOT_ACCEPTED
    finally:
        held.detach()
    return obstacle_in(Held(link, stat.S_IFSOCK, family, protocol))


def _has_not_accepted(held: socket.socket) -> bool:
    """Whether connections wait for accept(2): a listening socket counts them as `tcpi_unacked`
    (tcp_get_info, net/ipv4/tcp.c)."""
    state, waiting = struct.unpack(_TCP_INFO, held.getsockopt(socket.IPPROTO_TCP, 11, 28))
    return bool(state == _TCP_LISTEN and waiting)


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


def _in_tasks(process: Path) -> Iterator[Reason]:
    try:
        match = re.search(r"^TracerPid:\s*(\d+)", read(process / "status"), re.MULTILINE)
        if match is not None and match.group(1) != "0":
            yield TRACED
        if any(read(task / "wchan") in _IN_VFORK for task in (process / "task").iterdir()):
            yield VFORK
    except OSError:
        return
