"""Sockets of other processes, through copies of their descriptors."""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from outgrow import libc
from outgrow.core.connections import Connection
from outgrow.kernel.proc import PROC, descriptors

SO_DOMAIN, SO_PROTOCOL = 39, 38
"""socket(7); Python has no names for them."""
_TCP_INFO = 11
_ESTABLISHED, _FIN_WAIT1, _FIN_WAIT2, _CLOSE, _LISTEN = 1, 4, 5, 7, 10
"""Of include/net/tcp_states.h, as tcpi_state tells them."""
_WAITS_FOR_ITS_PEER = (_ESTABLISHED, _FIN_WAIT1, _FIN_WAIT2)


@contextmanager
def copied(pid: int, number: int) -> Iterator[int]:
    """A copy of another process's descriptor. Raises OSError."""
    pidfd = os.pidfd_open(pid)
    try:
        descriptor = libc.pidfd_getfd(pidfd, number)
    finally:
        os.close(pidfd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def as_socket(descriptor: int) -> Iterator[socket.socket]:
    """Its socket calls, whatever its family is."""
    # Of a family that Python is told: it would ask for a name, which not every socket has.
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield held
    finally:
        held.detach()


def connections(pids: Iterable[int], proc: Path = PROC) -> set[Connection]:
    """TCP connections of the processes. Those that end meanwhile have none."""
    return {connection for connection, _, _ in _tcp(pids, proc)}


def reset(pids: Iterable[int], those: Container[Connection], proc: Path = PROC) -> int:
    """Close those of the processes' connections that still wait for their peer: the program reads
    ECONNRESET, as when the peer had reset it. How many there were."""
    done = 0
    for connection, state, descriptor in _tcp(pids, proc):
        if connection in those and state in _WAITS_FOR_ITS_PEER:
            libc.disconnect(descriptor)
            done += 1
    return done


def listening_with(descriptor: int) -> int:
    """How many connections wait at a TCP socket for accept(2), 0 when it does not listen: it tells
    them as tcpi_unacked (tcp_get_info, net/ipv4/tcp.c). Raises OSError."""
    with as_socket(descriptor) as held:
        info = held.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 28)
    return int.from_bytes(info[24:28], "little") if info[0] == _LISTEN else 0


def _tcp(pids: Iterable[int], proc: Path) -> Iterator[tuple[Connection, int, int]]:
    """Each with its state and a copy of its descriptor, once."""
    seen: set[str] = set()
    for pid in pids:
        for number in descriptors(pid, proc):
            try:
                link = os.readlink(proc / str(pid) / "fd" / str(number))
                if not link.startswith("socket:") or link in seen:
                    continue
                seen.add(link)
                with copied(pid, number) as descriptor:
                    state = _tcp_state(descriptor)
                    if state not in (None, _LISTEN, _CLOSE):
                        yield _connection(descriptor), int(state or 0), descriptor
            except OSError:
                continue


def _tcp_state(descriptor: int) -> int | None:
    with as_socket(descriptor) as held:
        if held.getsockopt(socket.SOL_SOCKET, SO_PROTOCOL) != socket.IPPROTO_TCP:
            return None
        return held.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]


def _connection(descriptor: int) -> Connection:
    with as_socket(descriptor) as held:
        family = held.getsockopt(socket.SOL_SOCKET, SO_DOMAIN)
    held = socket.socket(family, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        (local, local_port), (remote, remote_port) = held.getsockname()[:2], held.getpeername()[:2]
    finally:
        held.detach()
    return Connection(_plain(local), local_port, _plain(remote), remote_port)


def _plain(address: str) -> str:
    """An IPv4 address that an IPv6 socket maps is that address."""
    return address.removeprefix("::ffff:") if "." in address else address
