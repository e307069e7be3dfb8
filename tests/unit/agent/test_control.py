"""The socket by which another terminal asks a job's keeper for something."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outgrow.agent.control import SOCKET, ControlServer, ask
from outgrow.agent.loop import Future, Loop
from outgrow.agent.requests import Request
from outgrow.core import errors
from outgrow.core.errors import OutgrowError, Transient, Usage

ERRORS = [
    errors.Busy("why", preserved="it runs on", remedy="wait"),
    errors.CannotSave("why", preserved="it runs on", remedy="wait"),
    errors.Damaged("why", preserved="it is kept", remedy="wait"),
    errors.NotFound("why", remedy="wait"),
    errors.Usage("why", preserved="it runs on", remedy="wait"),
    errors.Transient("why", preserved="it runs on", remedy="wait"),
]


class Asked:
    """A keeper that notes what it is asked, and answers with `reply`."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.loop = Loop()
        self.requests: list[Request] = []
        self.reply: dict[str, object] | BaseException = {"done": True}
        self.server = ControlServer(self.loop, run, os.getuid(), self._take)

    def _take(self, request: Request) -> None:
        self.requests.append(request)
        if isinstance(self.reply, BaseException):
            request.answer.fail(self.reply)
        else:
            request.answer.set(self.reply)

    def ask(self, **request: object) -> dict[str, Any]:
        """As another process does."""
        return self.loop.run_until(self.loop.in_thread(lambda: ask(self.run, **request)))

    def say(self, data: bytes) -> dict[str, Any]:
        """Anything at all; the answer."""

        def speak() -> bytes:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(20)
                connection.connect(str(self.run / SOCKET))
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                return connection.recv(1 << 16)

        answer: dict[str, Any] = json.loads(self.loop.run_until(self.loop.in_thread(speak)))
        return answer


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Asked]:
    asked = Asked(tmp_path)
    yield asked
    asked.server.close()


@pytest.mark.parametrize(
    ("asked", "request_"),
    [
        ({"verb": "save"}, ("save", False, 0, signal.SIGTERM)),
        ({"verb": "save", "stop": True}, ("save", True, 0, signal.SIGTERM)),
        ({"verb": "move", "memory": 1 << 40}, ("move", False, 1 << 40, signal.SIGTERM)),
        ({"verb": "kill", "signal": 10}, ("kill", False, 0, 10)),
    ],
)
def test_a_request_arrives_as_it_was_made(
    keeper: Asked, asked: dict[str, object], request_: tuple[object, ...]
) -> None:
    keeper.reply = {"checkpoint": 3, "bytes": 1 << 40}
    assert keeper.ask(**asked) == {"checkpoint": 3, "bytes": 1 << 40}
    (got,) = keeper.requests
    assert (got.verb, got.stop, got.memory, got.signal) == request_


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_the_keeper_is_raised_by_who_asked(keeper: Asked, error: OutgrowError) -> None:
    keeper.reply = error
    with pytest.raises(type(error)) as raised:
        keeper.ask(verb="save")
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)
    assert raised.value.exit_status == error.exit_status


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OutgrowError("why"), id="OutgrowError"),
        pytest.param(errors.Permanent("why"), id="Permanent"),
        pytest.param(errors.Unsupported("why", remedy="x"), id="Unsupported"),
    ],
)
def test_no_error_of_the_keeper_becomes_another(keeper: Asked, error: OutgrowError) -> None:
    keeper.reply = error
    with pytest.raises(OutgrowError) as raised:
        keeper.ask(verb="save")
    assert raised.value.exit_status == error.exit_status


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"not json", id="text"),
        pytest.param(b"\xff\x00", id="bytes"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no verb"),
        pytest.param(b'{"verb": "rm -rf"}', id="an unknown verb"),
        pytest.param(b'{"verb": ["save"]}', id="a list for a verb"),
        pytest.param(b'{"verb": "move", "memory": "lots"}', id="no number"),
        pytest.param(b'{"verb": "move", "memory": null}', id="null for a number"),
        pytest.param(b'{"verb": "move", "memory": NaN}', id="not a number"),
        pytest.param(b'{"verb": "move", "memory": ' + b"9" * 5000 + b"}", id="absurd"),
    ],
)
def test_what_cannot_be_understood_is_answered_and_reaches_nobody(
    keeper: Asked, data: bytes
) -> None:
    answer = keeper.say(data)
    assert answer["error"] == "Usage"
    assert "cannot be understood" in answer["message"]
    assert keeper.requests == []
    assert keeper.ask(verb="save") == {"done": True}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"verb": "move", "memory": Infinity}', id="infinity"),
        pytest.param(b"[" * 60000, id="absurdly deep"),
    ],
)
def test_no_request_brings_the_keeper_down(keeper: Asked, data: bytes) -> None:
    assert keeper.say(data)["error"] == "Usage"


@pytest.mark.parametrize("number", [-1, 65, 9999])
def test_what_is_no_signal_never_reaches_the_job(keeper: Asked, number: int) -> None:
    with pytest.raises(Usage):
        keeper.ask(verb="kill", signal=number)
    assert keeper.requests == []


def test_two_may_ask_at_once(keeper: Asked) -> None:
    answers: list[Future[dict[str, object]]] = []
    keeper.server._take = lambda request: answers.append(request.answer)
    both = [keeper.loop.in_thread(lambda: ask(keeper.run, verb="save")) for _ in range(2)]
    while len(answers) < 2:
        keeper.loop.run_until(keeper.loop.sleep(0.001))
    answers[1].set({"number": 2})
    answers[0].set({"number": 1})
    got = [keeper.loop.run_until(future)["number"] for future in both]
    assert sorted(got) == [1, 2]


def test_who_goes_away_before_the_answer_harms_nobody(keeper: Asked) -> None:
    answers: list[Future[dict[str, object]]] = []
    keeper.server._take = lambda request: answers.append(request.answer)

    def leave() -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(keeper.run / SOCKET))
            connection.sendall(b'{"verb": "save"}')

    keeper.loop.run_until(keeper.loop.in_thread(leave))
    while not answers:
        keeper.loop.run_until(keeper.loop.sleep(0.001))
    answers[0].set({"done": True})


def test_a_keeper_that_ends_answers_nobody_any_more(keeper: Asked) -> None:
    answers: list[Future[dict[str, object]]] = []
    keeper.server._take = lambda request: answers.append(request.answer)
    asking = keeper.loop.in_thread(lambda: ask(keeper.run, verb="save"))
    while not answers:
        keeper.loop.run_until(keeper.loop.sleep(0.001))
    keeper.server.close()
    with pytest.raises(Transient, match="went away before it answered"):
        keeper.loop.run_until(asking)
    answers[0].set({"done": True})


def test_a_job_that_nobody_keeps_says_so(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="nobody keeps the job now") as error:
        ask(tmp_path, verb="save")
    assert error.value.preserved == "it was not touched"
    assert "outgrow resume" in error.value.remedy


def test_a_socket_that_a_dead_keeper_left_is_no_keeper(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / SOCKET))
    with pytest.raises(Transient, match="refused"):
        ask(tmp_path, verb="save")
    keeper = Asked(tmp_path)  # and the next one takes its place
    assert keeper.ask(verb="save") == {"done": True}
    keeper.server.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    keeper = Asked(deep)
    assert keeper.ask(verb="save") == {"done": True}
    keeper.server.close()


def test_only_its_owner_can_open_the_socket(keeper: Asked) -> None:
    assert (keeper.run / SOCKET).stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="being another user takes root: run with sudo")
def test_another_user_is_not_heard_even_where_the_file_lets_her(keeper: Asked) -> None:
    (keeper.run / SOCKET).chmod(0o777)
    for folder in (keeper.run, *keeper.run.parents[:2]):
        folder.chmod(0o755)
    script = (
        "import os, socket, sys\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "os.setgroups([])\n"
        "os.setresgid(65534, 65534, 65534)\n"
        "os.setresuid(65534, 65534, 65534)\n"
        "connection.connect(sys.argv[1])\n"
        "print('connected', flush=True)\n"
        'connection.send(b\'{"verb": "kill"}\', socket.MSG_NOSIGNAL)\n'
        "print(connection.recv(100))\n"
    )

    def speak() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-c", script, str(keeper.run / SOCKET)]
        return subprocess.run(command, capture_output=True, text=True, timeout=20)

    ran = keeper.loop.run_until(keeper.loop.in_thread(speak))
    assert ran.stdout.startswith("connected\n"), ran.stderr
    assert "Usage" not in ran.stdout
    assert keeper.requests == []
