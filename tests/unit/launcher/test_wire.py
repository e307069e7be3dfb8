"""Messages between outgrow and a job's PID 1."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.launcher import wire

Pair = tuple[socket.socket, socket.socket]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
undecodable = st.binary(max_size=40).map(os.fsdecode)


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@given(st.dictionaries(st.text(min_size=1), anything | undecodable, max_size=5))
def test_any_message_arrives_as_it_was_sent(message: dict[str, object]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert wire.send(ours, **message) is True
        assert wire.receive(theirs) == [message]


@given(st.lists(undecodable, max_size=5))
def test_a_message_is_plain_ascii(argv: list[str]) -> None:
    data = wire.encode(op="engine", argv=argv)
    data.decode("ascii")
    assert [os.fsencode(word) for word in json.loads(data)["argv"]] == [
        os.fsencode(word) for word in argv
    ]


def test_all_that_has_arrived_is_received_in_order_without_waiting(pair: Pair) -> None:
    ours, theirs = pair
    assert wire.receive(theirs) == []
    for number in range(5):
        wire.send(ours, number=number)
    assert wire.receive(theirs) == [{"number": number} for number in range(5)]
    assert wire.receive(theirs) == []


def test_what_was_said_last_is_heard_before_the_end(pair: Pair) -> None:
    ours, theirs = pair
    wire.send(ours, event="failed")
    ours.close()
    assert wire.receive(theirs) == [{"event": "failed"}]
    assert wire.receive(theirs) is None
    assert wire.receive(theirs) is None


def test_what_was_said_last_is_heard_from_one_that_did_not_listen(pair: Pair) -> None:
    ours, theirs = pair
    wire.send(ours, op="signal")
    wire.send(theirs, event="failed", what="exec", errno=2)
    theirs.close()
    assert wire.receive(ours) == [{"event": "failed", "what": "exec", "errno": 2}]
    assert wire.receive(ours) is None


def test_one_that_is_gone_is_gone(pair: Pair) -> None:
    ours, theirs = pair
    wire.send(ours, op="signal")
    theirs.close()
    assert wire.receive(ours) is None
    assert wire.send(ours, op="thawed") is False


def test_sending_never_waits_for_one_that_does_not_listen(pair: Pair) -> None:
    ours, theirs = pair
    sent = 0
    while wire.send(ours, op="heartbeat"):
        sent += 1
        assert sent < 1_000_000
    assert len(wire.receive(theirs) or ()) == sent
    assert wire.send(ours, op="heartbeat") is True


def test_what_is_no_object_is_not_heard(pair: Pair) -> None:
    ours, theirs = pair
    ours.send(b"[1]")
    ours.send(b'{"op": "end"}')
    assert wire.receive(theirs) == [{"op": "end"}]


@pytest.mark.parametrize("size", [wire.LARGEST // 2, wire.LARGEST - 100])
def test_a_large_message_arrives_whole(pair: Pair, size: int) -> None:
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.LARGEST * 2)
    assert wire.send(ours, text="x" * size) is True
    assert wire.receive(theirs) == [{"text": "x" * size}]


def test_a_message_that_is_too_large_is_not_sent_in_part(pair: Pair) -> None:
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.LARGEST * 2)
    assert wire.send(ours, text="x" * wire.LARGEST) is False
    assert wire.receive(theirs) == []
