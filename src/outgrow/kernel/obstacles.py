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
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

from outgrow.core.obstacles import (
    DEAD_SESSION,
    LEADER_ENDED,
    LEFT,
    NOT_ACCEPTED,
    OTHER_RIGHTS,
    SYSTEM_V_MEMORY,
    TRACED,
    UNREAD_DATAGRAMS,
    UNREAD_EVENTS,
    VFORK,
    Held,
    Obstacle,
    Reason,
    connected_to,
    in_namespace,
    obstacle_in,
)
from outgrow.kernel.files import read
from outgrow.kernel.proc import PROC, descriptors, kinship
from outgrow.kernel.sockets import (
    SO_DOMAIN,
    SO_PROTOCOL,
    as_socket,
    copied,
    listening_with,
)

_IN_VFORK = frozenset({"kernel_clone", "wait_for_vfork_done", "_do_fork"})
"""Functions in which a parent waits (kernel/fork.c, by its age)."""

_CAP_SYS_RESOURCE = 1 << 24
_SYSTEM_V = b" /SYSV"
"""How the name of a segment begins in /proc/PID/maps (shm_mmap, ipc/shm.c)."""
_NAMESPACES_OF_OURS = {"mnt": "mount", "user": "user", "pid": "PID"}
"""In these the job's first process has to stay with its PID 1; it may have a network, an IPC or a
host name of its own."""
_NAMESPACES = _NAMESPACES_OF_OURS | {
    "net": "network",
    "ipc": "IPC",
    "uts": "host name",
    "cgroup": "cgroup",
}


def find_obstacles(pids: Iterable[int], proc: Path = PROC) -> list[Obstacle]:
    """One of each kind for each process. Processes that end meanwhile have none. No file of the
    job's is looked at, whose server may be gone."""
    found: dict[tuple[int, str], Obstacle] = {}
    pids, rights = dict.fromkeys(pids).keys(), _own_rights(proc)  # in order, and quick to look in
    for pid in pids:
        for reason in (*_in_descriptors(pid, pids, proc), *_in_tasks(proc / str(pid), rights)):
            found.setdefault((pid, reason.what), Obstacle(pid, reason))
    return [*found.values(), *_in_tree(pids, proc)]


def _in_tree(pids: Set[int], proc: Path) -> Iterator[Obstacle]:
    """The job is the oldest process that has its parent elsewhere, and what descends from it."""
    family = {pid: kin for pid in pids if (kin := kinship(pid, proc)) is not None}
    tops = [pid for pid, kin in family.items() if kin.parent not in pids]
    if not tops:
        return
    root = min(tops, key=lambda pid: (family[pid].start, pid))
    outside = family[root].parent
    for kind in _differ(root, outside, _NAMESPACES_OF_OURS, proc):
        yield Obstacle(root, in_namespace(kind))
    if not any(_differ(root, outside, {"ipc": "IPC"}, proc)):
        yield from (Obstacle(pid, SYSTEM_V_MEMORY) for pid in family if _has_segment(pid, proc))
    for pid, kin in family.items():
        if pid == root:
            continue
        for kind in _differ(pid, root, _NAMESPACES, proc):
            yield Obstacle(pid, in_namespace(kind))
        if pid in tops:
            yield Obstacle(pid, LEFT)
        elif kin.session != family[root].session and kin.session not in pids:
            leader = kinship(kin.session, proc)
            if leader is not None and leader.state == "Z":
                yield Obstacle(pid, DEAD_SESSION)


def _has_segment(pid: int, proc: Path) -> bool:
    try:
        return _SYSTEM_V in (proc / str(pid) / "maps").read_bytes()
    except OSError:
        return False


def _differ(pid: int, other: int, kinds: Mapping[str, str], proc: Path) -> Iterator[str]:
    """In which namespaces the two are not together."""
    for file, kind in kinds.items():
        try:
            here, there = (os.readlink(proc / str(one) / "ns" / file) for one in (pid, other))
        except OSError:  # one of them is gone
            return
        if here != there:
            yield kind


def _in_descriptors(pid: int, pids: Set[int], proc: Path) -> Iterator[Reason]:
    for number in descriptors(pid, proc):
        opened = proc / str(pid) / "fd" / str(number)
        try:
            link = os.readlink(opened)
            if link.startswith("socket:"):
                with copied(pid, number) as copy:
                    reason = _in_socket(copy, link, pids, proc)
            elif link == "anon_inode:inotify":
                with copied(pid, number) as copy:
                    reason = UNREAD_EVENTS if _unread(copy) else None
            elif link.startswith("/dev/"):
                reason = obstacle_in(Held(link, opened.stat().st_mode))
            else:
                reason = obstacle_in(Held(link))
        except OSError:
            continue
        if reason is not None:
            yield reason


def _in_socket(descriptor: int, link: str, pids: Set[int], proc: Path) -> Reason | None:
    with as_socket(descriptor) as held:
        family, kind, protocol = (
            held.getsockopt(socket.SOL_SOCKET, option)
            for option in (SO_DOMAIN, socket.SO_TYPE, SO_PROTOCOL)
        )
        if family == socket.AF_UNIX:
            return _in_unix_socket(held, pids, proc)
    if family in (socket.AF_INET, socket.AF_INET6):
        if kind == socket.SOCK_DGRAM and _unread(descriptor):
            return UNREAD_DATAGRAMS
        if protocol == socket.IPPROTO_TCP and listening_with(descriptor):
            return NOT_ACCEPTED
    return obstacle_in(Held(link, stat.S_IFSOCK, family, protocol))


def _in_unix_socket(held: socket.socket, pids: Set[int], proc: Path) -> Reason | None:
    """SO_PEERCRED names the process that connected, listened, or made both ends (unix(7)). One that
    is gone has left its end to somebody, who may be of the job."""
    peer, _, _ = struct.unpack("3i", held.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if peer == 0 or peer in pids or not (proc / str(peer)).exists():
        return None
    return connected_to(read(proc / str(peer) / "comm"))


def _unread(descriptor: int) -> int:
    """Bytes that wait in it (ioctl(2), FIONREAD)."""
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def _in_tasks(process: Path, rights: set[tuple[str, int]] | None) -> Iterator[Reason]:
    try:
        status = read(process / "status")
        if _numbers("TracerPid", status) not in ([], [0]):
            yield TRACED
        if rights is not None and _rights(status) - rights:
            yield OTHER_RIGHTS
        tasks = list((process / "task").iterdir())
        if any(read(task / "wchan") in _IN_VFORK for task in tasks):
            yield VFORK
        if len(tasks) > 1 and _is_zombie(process):
            yield LEADER_ENDED
    except OSError:
        return


def _own_rights(proc: Path) -> set[tuple[str, int]] | None:
    """The user and the group whose processes alone an engine can ask for their resource limits
    (prlimit(2)); None with CAP_SYS_RESOURCE, which opens all."""
    try:
        own = read(proc / "self/status")
    except OSError:
        return None
    if int(own.partition("CapEff:")[2].split()[0], 16) & _CAP_SYS_RESOURCE:
        return None
    return {(kind, _numbers(kind, own)[0]) for kind in ("Uid", "Gid")}


def _rights(status: str) -> set[tuple[str, int]]:
    return {(kind, number) for kind in ("Uid", "Gid") for number in _numbers(kind, status)[:3]}


def _numbers(key: str, status: str) -> list[int]:
    match = re.search(rf"^{key}:(.*)$", status, re.MULTILINE)
    return [int(word) for word in match.group(1).split()] if match is not None else []


def _is_zombie(process: Path) -> bool:
    kin = kinship(int(process.name), process.parent)
    return kin is not None and kin.state == "Z"
