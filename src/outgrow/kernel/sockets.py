"""Sockets of other processes, through copies of their descriptors."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from outgrow import libc
from outgrow.core.connections import Connection, Listener
from outgrow.kernel.proc import PROC, descriptors

SO_DOMAIN, SO_PROTOCOL = 39, 38
"""socket(7); Python has no names for them."""
_TCP_INFO = 11
_ESTABLISHED, _FIN_WAIT1, _FIN_WAIT2, _LISTEN = 1, 4, 5, 10
"""Of include/net/tcp_states.h, as tcpi_state tells them."""
_IN_USE = (_ESTABLISHED, _FIN_WAIT1, _FIN_WAIT2, 8, 9, _LISTEN, 11)
"""Those, and on their way to the end: CLOSE_WAIT, LAST_ACK and CLOSING."""
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


def endpoints(
    pids: Iterable[int], proc: Path = PROC
) -> tuple[set[Connection], tuple[Listener, ...]]:
    """TCP connections of the processes, and where they listen, in order. Those that end meanwhile
    have none."""
    connections, listeners = set(), set()
    for state, descriptor in _tcp(pids, proc):
        with suppress(OSError):  # its peer has just reset it
            if state == _LISTEN:
                listeners.add(_name(descriptor))
            else:
                connections.add(_connection(descriptor))
    return connections, tuple(Listener(*name) for name in sorted(listeners))


def taken(those: Iterable[Listener]) -> list[Listener]:
    """Those that somebody has by now, so that nobody else can."""
    found = []
    for listener in those:
        family = socket.AF_INET6 if ":" in listener.address else socket.AF_INET
        try:
            with socket.socket(family) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                attempt.bind((listener.address, listener.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                found.append(listener)
    return found


def reset(pids: Iterable[int], those: Container[Connection], proc: Path = PROC) -> int:
    """Close those of the processes' connections that still wait for their peer: the program reads
    ECONNRESET, as when the peer had reset it. How many there were."""
    done = 0
    for state, descriptor in _tcp(pids, proc):
        with suppress(OSError):  # its peer has just reset it
            if state in _WAITS_FOR_ITS_PEER and _connection(descriptor) in those:
                libc.disconnect(descriptor)
                done += 1
    return done


def listening_with(descriptor: int) -> int:
    """How many connections wait at a TCP socket for accept(2), 0 when it does not listen: it tells
    them as tcpi_unacked (tcp_get_info, net/ipv4/tcp.c). Raises OSError."""
    with as_socket(descriptor) as held:
        info = held.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 28)
    return int.from_bytes(info[24:28], "little") if info[0] == _LISTEN else 0


def _tcp(pids: Iterable[int], proc: Path) -> Iterator[tuple[int, int]]:
    """State and a copy of the descriptor of each TCP socket that is in use, once."""
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
                    if state is not None and state in _IN_USE:
                        yield state, descriptor
            except OSError:
                continue


def _tcp_state(descriptor: int) -> int | None:
    with as_socket(descriptor) as held:
        if held.getsockopt(socket.SOL_SOCKET, SO_PROTOCOL) != socket.IPPROTO_TCP:
            return None
        return held.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]


def _connection(descriptor: int) -> Connection:
    return Connection(*_name(descriptor), *_name(descriptor, of_peer=True))


def _name(descriptor: int, *, of_peer: bool = False) -> tuple[str, int]:
    """Address and port. An IPv4 address that an IPv6 socket maps is that address."""
    with as_socket(descriptor) as held:
        family = held.getsockopt(socket.SOL_SOCKET, SO_DOMAIN)
    held = socket.socket(family, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        address, port = (held.getpeername() if of_peer else held.getsockname())[:2]
    finally:
        held.detach()
    return (address.removeprefix("::ffff:") if "." in address else address), port
