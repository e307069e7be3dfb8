"""The socket by which other processes ask a job's keeper for something.

`control.sock` in the job's run directory: one JSON object in, one out. Only root and the job's
owner are heard.
"""

from __future__ import annotations

import json
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outgrow.agent.loop import Future, Loop
from outgrow.agent.requests import Request
from outgrow.core import errors
from outgrow.core.errors import OutgrowError, Transient
from outgrow.launcher import wire

SOCKET = "control.sock"
_LARGEST = 1 << 16
_MOST_CLIENTS = 16
_ERRORS: dict[str, type[OutgrowError]] = {
    kind.__name__: kind
    for kind in (
        *(errors.Busy, errors.CannotSave, errors.Damaged, errors.NotFound, errors.Usage),
        *(errors.Permanent, errors.Transient, OutgrowError),
    )
}


class ControlServer:
    """Hands requests to `take`, and answers when their futures are done."""

    def __init__(self, loop: Loop, run: Path, owner: int, take: Callable[[Request], None]) -> None:
        self._loop = loop
        self._take = take
        self._heard = frozenset({0, owner})
        self._clients: set[socket.socket] = set()
        self._run = run
        (run / SOCKET).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with wire.short_path(run) as folder:
            self._listener.bind(f"{folder}/{SOCKET}")
        (run / SOCKET).chmod(0o600)
        self._listener.listen(8)
        loop.watch(self._listener.fileno(), select.EPOLLIN, lambda _: self._accept())

    def close(self) -> None:
        """Answer nobody any more."""
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        (self._run / SOCKET).unlink(missing_ok=True)
        for client in list(self._clients):
            self._drop(client)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        _, uid = wire.peer(client)
        if uid not in self._heard or len(self._clients) >= _MOST_CLIENTS:
            client.close()
            return
        client.setblocking(False)
        self._clients.add(client)
        self._loop.watch(client.fileno(), select.EPOLLIN, lambda _: self._read(client))

    def _read(self, client: socket.socket) -> None:
        try:
            data = client.recv(_LARGEST)
        except OSError:
            data = b""
        self._loop.unwatch(client.fileno())
        if not data:
            self._drop(client)
            return
        answer: Future[dict[str, object]] = Future()
        answer.then(lambda: self._answer(client, answer))
        try:
            message = json.loads(data)
            request = Request(
                verb=_one_of(message["verb"], ("save", "move", "kill")),
                answer=answer,
                stop=bool(message.get("stop", False)),
                memory=int(message.get("memory", 0)),
                signal=signal.Signals(int(message.get("signal", 15))),
            )
        except Exception:  # whatever somebody sends, the keeper stays
            answer.fail(errors.Usage("the request cannot be understood"))
            return
        self._take(request)

    def _answer(self, client: socket.socket, answer: Future[dict[str, object]]) -> None:
        try:
            reply: dict[str, object] = {"ok": answer.result()}
        except OutgrowError as error:
            reply = {
                "error": type(error).__name__,
                "status": error.exit_status,
                "message": error.message,
                "preserved": error.preserved,
                "remedy": error.remedy,
            }
        try:
            client.send(json.dumps(reply).encode(), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except OSError:
            pass  # it went away; what it asked for is done all the same
        self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        self._clients.discard(client)
        if client.fileno() >= 0:
            self._loop.unwatch(client.fileno())
        client.close()


def ask(run: Path, **request: object) -> dict[str, Any]:
    """Ask the keeper of a job, and wait for its answer, however long that takes. Raises what the
    keeper raised, or Transient when it is not there or goes away."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with wire.short_path(run) as folder:
            connection.connect(f"{folder}/{SOCKET}")
        connection.sendall(json.dumps(request).encode())
        data = b""
        while piece := connection.recv(_LARGEST):
            data += piece
    except OSError as error:
        raise Transient(
            f"nobody keeps the job now ({error.strerror})",
            preserved="it was not touched",
            remedy="`outgrow resume JOB` takes a running job under guard again",
        ) from None
    finally:
        connection.close()
    if not data:
        raise Transient(
            "the job's keeper went away before it answered", remedy="see `outgrow show JOB`"
        )
    reply: dict[str, Any] = json.loads(data)
    if "ok" in reply:
        answer: dict[str, Any] = reply["ok"]
        return answer
    kind = _ERRORS.get(reply["error"], OutgrowError)
    answer_error = kind(reply["message"], preserved=reply["preserved"], remedy=reply["remedy"])
    answer_error.exit_status = reply["status"]
    raise answer_error


def _one_of(value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(value)
    return str(value)
