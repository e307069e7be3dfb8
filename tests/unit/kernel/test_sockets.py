"""Sockets of a process, by the example of this one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from outgrow.core.connections import Connection, Listener
from outgrow.kernel.sockets import endpoints, reset, taken

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="looks into descriptors of sockets: run it as root"
)
PAIRS = [
    pytest.param("127.0.0.1", "127.0.0.1", id="IPv4"),
    pytest.param("::1", "::1", id="IPv6"),
    pytest.param("::", "127.0.0.1", id="IPv4 to an IPv6 socket"),
]


@pytest.fixture
def pair(at: str, to: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    try:
        listener = socket.create_server((at, 0), family=family, dualstack_ipv6=at == "::")
        client = socket.create_connection((to, listener.getsockname()[1]))
    except OSError as error:
        pytest.skip(f"needs the address {at}: {error}")
    with listener, client, listener.accept()[0] as server:
        yield client, server


def ends(pair: tuple[socket.socket, socket.socket]) -> tuple[Connection, Connection]:
    near = Connection(*pair[0].getsockname()[:2], *pair[0].getpeername()[:2])
    return near, near.from_the_other_end()


@pytest.mark.parametrize(("at", "to"), PAIRS)
def test_both_ends_of_a_connection_are_found(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends(pair)
    with socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        assert endpoints([os.getpid(), os.getpid(), 2**22 + 1])[0] >= {near, far}


@pytest.mark.parametrize(("at", "to"), PAIRS)
def test_one_that_is_reset_is_reset_at_both_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    near, _ = ends(pair)
    server.sendall(b"unread")
    assert reset([os.getpid()], {near}) == 1
    for end in (client, server):
        with pytest.raises(ConnectionResetError):
            end.recv(10)
    assert reset([os.getpid()], {near}) == 0


@pytest.mark.parametrize(("at", "to"), PAIRS[:1])
def test_one_that_the_peer_has_closed_is_left_alone(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, server = pair
    near, _ = ends(pair)
    server.sendall(b"the end")
    server.close()
    assert reset([os.getpid()], {near}) == 0
    assert client.recv(10) == b"the end"
    assert client.recv(10) == b""


def test_where_it_listens_and_whether_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = Listener("127.0.0.1", listener.getsockname()[1])
        assert address in endpoints([os.getpid()])[1]
        assert bound.getsockname()[1] not in {one.port for one in endpoints([os.getpid()])[1]}
        assert taken([address]) == [address]
    assert taken([address, Listener("192.0.2.1", 80)]) == []
