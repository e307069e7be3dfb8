"""One living incarnation, as its keeper holds it: PID 1, cgroup, and what PID 1 says."""

from __future__ import annotations

import os
import secrets
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outgrow.agent.loop import Future, Loop, Timer
from outgrow.core.errors import Transient
from outgrow.launcher import records
from outgrow.launcher.handle import InitHandle
from outgrow.launcher.streams import Descriptors
from outgrow.ports import Cgroup

_HEARTBEAT = 0.5
"""Seconds; PID 1 takes outgrow for hung after four of them without a word."""


class LiveIncarnation:
    """Also the Runner for engines: programs run as children of PID 1, in the job's namespaces.

    `ended` is done when PID 1 is gone; `started` when the job runs, or failed to.
    """

    def __init__(
        self,
        loop: Loop,
        number: int,
        cgroup: Cgroup,
        init: InitHandle,
        run_dir: Path,
        descriptors: Descriptors,
    ) -> None:
        self.number = number
        self.cgroup = cgroup
        self.init = init
        self.root_pid = 0
        self.descriptors = descriptors
        """The job's standard streams, as this process holds them."""
        self.started: Future[dict[str, Any]] = Future()
        self.ended: Future[None] = Future()
        self.refused: Future[dict[str, Any]] = Future()
        self.let_go = False
        """The watchdog let the job run although a freeze of ours stood."""
        self._loop = loop
        self._run_dir = run_dir
        self._engine: Future[int] = Future()
        self._token = 0
        self._told_status: int | None = None
        self._heart: Timer | None = None
        loop.watch(init.pidfd, select.EPOLLIN, self._init_is_gone)
        loop.watch(init.connection.fileno(), select.EPOLLIN, self._init_speaks)

    @property
    def alive(self) -> bool:
        """Whether PID 1 is there."""
        return not self.ended.done

    @property
    def watched(self) -> bool:
        """Whether PID 1 was told of a freeze that stands."""
        return self._heart is not None

    def wait_status(self) -> int | None:
        """How the job's first process ended, as of wait(2); None when nobody could say."""
        record = records.read_exit(self._run_dir, self.number)
        return self._told_status if record is None else record.status

    def tell_frozen(self) -> None:
        """PID 1 watches from here on that this process does not die or hang on it."""
        # Random: PID 1 may remember those of a keeper before this one.
        self._token = secrets.randbits(62)
        self.let_go = False
        self.init.tell(op="frozen", token=self._token)
        self._beat()

    def thaw(self) -> None:
        """The job runs on."""
        self._stop_beating()
        self.cgroup.thaw()
        self.init.tell(op="thawed")

    def renew_undo(self) -> None:
        """Tell PID 1 what to write when this process is gone: after every change of the limit."""
        self.init.tell(op="undo", writes=self.cgroup.undo().writes)

    def signal(self, number: int, *, group: bool) -> None:
        """Send a signal to the job's first process, or its process group."""
        self.init.tell(op="signal", signal=number, group=group)

    def kill(self) -> None:
        """SIGKILL for every process of the job."""
        self.init.tell(op="end")

    async def run(self, argv: Sequence[str], timeout: float) -> int:
        """See ports.Runner."""
        self._engine = Future()
        self.init.tell(op="engine", argv=list(argv))
        timer = self._loop.later(timeout, self._stop_engine)
        await self._first(self._engine, self.ended)
        timer.cancel()
        if not self._engine.done:
            raise Transient("the job ended while it was being saved")
        status = self._engine.result()
        return status if status >= 0 else 128 - status

    async def release(self, checkpoint: int) -> bool:
        """Have PID 1 end every process without letting one run again. False, and the job runs on,
        when it has run since it was frozen."""
        self.refused = Future()
        self.init.tell(op="release", token=self._token, checkpoint=checkpoint)
        await self._first(self.ended, self.refused)
        if not self.ended.done:
            return False
        record = records.read_exit(self._run_dir, self.number)
        return record is not None and record.released == checkpoint

    def close(self) -> None:
        """Let go of PID 1, dead or alive."""
        self._stop_beating()
        self._loop.unwatch(self.init.pidfd)
        self._loop.unwatch(self.init.connection.fileno())
        self.init.close()

    def _stop_engine(self) -> None:
        self.init.tell(op="engine-stop")

    def _first(self, *futures: Future[Any]) -> Future[None]:
        first: Future[None] = Future()
        for future in futures:
            future.then(lambda: first.set(None))
        return first

    def _beat(self) -> None:
        self._stop_beating()
        self.init.tell(op="heartbeat")
        self._heart = self._loop.later(_HEARTBEAT, self._beat)

    def _stop_beating(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
            self._heart = None

    def _init_is_gone(self, _: int) -> None:
        self._hear()
        self._loop.unwatch(self.init.pidfd)
        self._stop_beating()
        self.started.set({"event": "failed", "what": "PID 1 died", "errno": 0})
        self.ended.set(None)

    def _init_speaks(self, _: int) -> None:
        if not self._hear():
            self._loop.unwatch(self.init.connection.fileno())

    def _hear(self) -> bool:
        messages = self.init.heard()
        for message in messages or ():
            match message["event"]:
                case "started":
                    self.root_pid = message["root"]
                    self.started.set(message)
                case "failed":
                    self.started.set(message)
                case "engine-ended":
                    self._engine.set(message["status"])
                case "refused":
                    self.refused.set(message)
                case "ended":
                    self._told_status = message["status"]
                case "let-go" if message["token"] == self._token:
                    self.let_go = True
                case "are-you-there":
                    self.init.tell(op="heartbeat")
        return messages is not None


def reap_orphans() -> None:
    """Collect what ended: PID 1 of a job is this process's child by way of its subreaper role."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
