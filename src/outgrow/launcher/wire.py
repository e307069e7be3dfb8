"""Messages between outgrow and PID 1 of a job: one JSON object per packet of a SEQPACKET socket."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LARGEST = 1 << 17


@contextmanager
def short_path(folder: Path) -> Iterator[str]:
    """Another path to a directory: a socket's own has at most 107 bytes. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def listen(folder: Path, name: str) -> socket.socket:
    """A listening socket of that name. Raises OSError."""
    (folder / name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with short_path(folder) as path:
        listener.bind(f"{path}/{name}")
    listener.listen(4)
    return listener


def peer(connection: socket.socket) -> tuple[int, int]:
    """PID and user id of the process at the other end (unix(7), SO_PEERCRED). Raises OSError."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def encode(**message: object) -> bytes:
    """One message. Non-ASCII and undecodable file names survive."""
    return json.dumps(message).encode("ascii")


def receive(connection: socket.socket) -> list[dict[str, Any]] | None:
    """All messages that have arrived; None when the other side is gone. Does not wait."""
    messages: list[dict[str, Any]] = []
    while True:
        try:
            packet = connection.recv(LARGEST, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return messages
        except ConnectionResetError:
            continue  # it went away without reading all of ours; what it said before is still there
        except OSError:
            return messages or None
        if not packet:
            return messages or None
        message = json.loads(packet)
        if isinstance(message, dict):
            messages.append(message)


def send(connection: socket.socket, **message: object) -> bool:
    """Send one message without waiting; whether it went, whole."""
    packet = encode(**message)
    if len(packet) > LARGEST:
        return False
    try:
        connection.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True
