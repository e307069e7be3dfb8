"""outgrow's side of a job's PID 1: start it, talk to it, take it over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outgrow.core.errors import Busy, OutgrowError, Transient, Unsupported
from outgrow.launcher import records, wire
from outgrow.launcher.child import INHERITED_AT, Start
from outgrow.launcher.program import own_program
from outgrow.ports import Cgroup, StreamKey

_START_TIMEOUT = 10.0


class InitHandle:
    """A living PID 1, and the connection to it. Losing the connection makes it let the job go."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)

    def tell(self, **message: object) -> bool:
        """Send a message; whether it went."""
        return wire.send(self.connection, **message)

    def heard(self) -> list[dict[str, Any]] | None:
        """Messages that have arrived; None when PID 1 is gone."""
        return wire.receive(self.connection)

    def close(self) -> None:
        """Let go of it. PID 1 lives on."""
        self.connection.close()
        os.close(self.pidfd)


def start_init(
    run: Path,
    incarnation: int,
    *,
    cgroup: Cgroup,
    grace: float,
    streams: Sequence[int],
    start: Start | None = None,
    restore: Mapping[str, object] | None = None,
) -> InitHandle:
    """Make the namespaces and PID 1, which then starts (`start`) or restores (`restore`: `argv`,
    `root`, `last_pid`) the job.

    On return PID 1 exists; `started` or `failed` follows as a message. Raises Busy when another
    incarnation of the job lives, Unsupported without the privilege for namespaces.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.LARGEST * 2)
    plan = {
        "run": str(run),
        "incarnation": incarnation,
        "socket": theirs.fileno(),
        "join": list(cgroup.join_files),
        "cgroups": list(cgroup.paths),
        "undo": asdict(cgroup.undo()),
        "limit": cgroup.limit,
        "grace": grace,
        "start": None if start is None else asdict(start),
        "restore": None if restore is None else dict(restore),
    }
    plan_fd = os.memfd_create("outgrow-plan", 0)
    os.write(plan_fd, json.dumps(plan).encode("ascii"))
    os.lseek(plan_fd, 0, os.SEEK_SET)
    try:
        process = subprocess.Popen(
            own_program("outgrow.launcher", str(plan_fd)),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            pass_fds=(plan_fd, theirs.fileno()),
            restore_signals=False,
            cwd="/",
        )
    finally:
        os.close(plan_fd)
        theirs.close()
    pid = _await_init(ours)
    process.wait()
    return InitHandle(ours, pid)


def take_over(run: Path) -> InitHandle:
    """Connect to the PID 1 of a job whose outgrow is gone. Raises Busy when it is not gone, or
    Transient when PID 1 does not answer."""
    with wire.short_path(run) as folder:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _connect(connection, f"{folder}/{records.SOCKET}")
            pid, _ = wire.peer(connection)
        except OSError as error:
            connection.close()
            raise Transient(
                f"the job's PID 1 does not answer ({error})", preserved="the job runs on"
            ) from None
    return InitHandle(connection, pid)


def _connect(connection: socket.socket, path: str) -> None:
    """A PID 1 that has only just begun does not listen yet."""
    end = time.monotonic() + _START_TIMEOUT
    connection.settimeout(_START_TIMEOUT)
    while True:
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            connection.settimeout(None)
            return


def inherited_streams(streams: Iterable[StreamKey]) -> dict[str, int]:
    """For each outer stream's key the descriptor at which a restoring engine finds it."""
    found: dict[str, int] = {}
    for stream in streams:  # one pipe may be two streams: the first of them counts
        found.setdefault(stream.key, INHERITED_AT + stream.stream)
    return found


def _await_init(ours: socket.socket) -> int:
    ours.settimeout(_START_TIMEOUT)
    try:
        packet = ours.recv(wire.LARGEST)
    except TimeoutError:
        raise Transient("the launcher did not start in time", preserved="nothing ran") from None
    finally:
        ours.settimeout(None)
    failed = {"event": "failed", "what": "start", "errno": 0}
    message: dict[str, Any] = json.loads(packet) if packet else failed
    if message["event"] == "init":
        return int(message["pid"])
    ours.close()
    reason = os.strerror(message.get("errno") or 0)
    if message["what"] == "lock":
        raise Busy("another incarnation of this job lives", remedy="see `outgrow ps`")
    if message["what"] == "namespaces":
        raise Unsupported(f"making PID and mount namespaces ({reason})", remedy="run as root")
    raise OutgrowError(f"the launcher failed: {message['what']} ({reason})")
