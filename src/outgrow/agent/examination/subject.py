"""`python -m outgrow.agent.examination.subject KIND…`: the process that is saved and resumed in a
trial, with something of each kind inside.

It says `ready`, waits for a line on standard input, and then says as JSON what of it still works:
for each kind an empty text, or what went wrong. It ends when standard input does.
"""

from __future__ import annotations

import json
import mmap
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable

Check = Callable[[], str]
"""Uses a part of the process; empty, or what went wrong."""

_PATTERN = bytes(range(256)) * 4096


def main() -> None:
    """See the module."""
    checks = {kind: build() for kind, build in PARTS.items() if kind in sys.argv[1:]}
    os.write(1, b"ready\n")
    if not os.read(0, 16):
        return
    os.write(1, json.dumps({kind: _tried(check) for kind, check in checks.items()}).encode())
    os.write(1, b"\n")


def _processes() -> Check:
    """A child that answers over a pipe, and a pattern in private memory."""
    ask = _child(lambda byte: byte + 1)
    pattern = bytearray(_PATTERN)

    def check() -> str:
        if pattern != _PATTERN:
            return "its memory changed"
        return "" if ask(41) == 42 else "its child does not answer"

    return check


def _shared_memory() -> Check:
    """A page that a child changes."""
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    shared[0] = 7

    def add(byte: int) -> int:
        shared[0] += byte
        return 0

    ask = _child(add)

    def check() -> str:
        ask(5)
        return "" if shared[0] == 12 else "the processes do not share it any more"

    return check


def _threads() -> Check:
    """Threads that each double a number."""
    questions: queue.Queue[int] = queue.Queue()
    answers: queue.Queue[int] = queue.Queue()

    def serve() -> None:
        while True:
            answers.put(questions.get() * 2)

    for _ in range(3):
        threading.Thread(target=serve, daemon=True).start()

    def check() -> str:
        for number in range(9):
            questions.put(number)
        answered = sorted(answers.get(timeout=5) for _ in range(9))
        return "" if answered == list(range(0, 18, 2)) else f"the threads answered {answered}"

    return check


def _tcp() -> Check:
    """A listening socket on loopback, and a connection to it with bytes under way."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname(), timeout=5)
    server, _ = listener.accept()
    server.settimeout(5)
    client.sendall(b"sent before; ")

    def check() -> str:
        client.sendall(b"sent after")
        got = b""
        while len(got) < len(b"sent before; sent after") and (piece := server.recv(64)):
            got += piece
        if got != b"sent before; sent after":
            return f"the connection brought {got!r}"
        listener.settimeout(5)
        with socket.create_connection(listener.getsockname(), timeout=5):
            listener.accept()[0].close()
        return ""

    return check


PARTS: dict[str, Callable[[], Check]] = {
    # What forks comes first: a child must not have another part's threads in it.
    "processes": _processes,
    "shared-memory": _shared_memory,
    "threads": _threads,
    "tcp": _tcp,
}


def _tried(check: Check) -> str:
    try:
        return check()
    except Exception as error:  # whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"


def _child(answer: Callable[[int], int]) -> Callable[[int], int]:
    """Fork a child that answers bytes, until this process ends."""
    question_read, question_write = os.pipe()
    answer_read, answer_write = os.pipe()
    if os.fork() == 0:
        os.close(question_write)
        os.close(answer_read)
        while byte := os.read(question_read, 1):
            os.write(answer_write, bytes([answer(byte[0])]))
        os._exit(0)
    os.close(question_read)
    os.close(answer_write)

    def ask(byte: int) -> int:
        os.write(question_write, bytes([byte]))
        return os.read(answer_read, 1)[0]

    return ask


if __name__ == "__main__":
    main()
