"""PID 1 of a job's PID namespace: starts or restores the job, waits for it, and watches outgrow.

It shares no fate with the process that guards the job. Should that die or hang with the job
frozen or held at its limit, PID 1 gives the job back to the kernel (`Undo`). It alone releases the
job's memory, and only if the job has not run since it was frozen, so that a checkpoint and a
living incarnation that is ahead of it can never both count. The lock that it holds dies with it,
and with it every process of the namespace.

Standard library only, and little of it: there is one of these per job.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, NoReturn

from outgrow.launcher import records, wire
from outgrow.launcher.child import Start, engine_in_child, start_in_child, stop_engine
from outgrow.launcher.watchdog import Watchdog

ENGINE_GIVES_UP = 60.0
"""Seconds that an engine has to take its own way out; it takes milliseconds. After that it hangs,
and is killed, which may cost the job its life: so late that only a dead disk explains it."""
_ENGINE_BUSY = 75
_CGROUP_EMPTIES = 2.0
_EVERY_OTHER_PROCESS = -1


class Init:
    """The event loop of PID 1."""

    def __init__(self, plan: dict[str, Any], to_outgrow: socket.socket, held: records.Lock) -> None:
        self._plan = plan
        self._held = held
        self._run = Path(plan["run"])
        self._incarnation: int = plan["incarnation"]
        self._outgrow: socket.socket | None = to_outgrow
        self._root = 0
        self._engine = 0
        self._engine_deadline: float | None = None
        self._restoring = plan["restore"] is not None
        self._watchdog = Watchdog(plan["undo"])
        self._early_end: int | None = None
        self._ended = False
        self._last_breath: float | None = None
        self._wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: None)
        self._listener = wire.listen(self._run, records.SOCKET)
        self._poll = select.epoll()
        for descriptor in (self._wake, self._listener.fileno(), to_outgrow.fileno()):
            self._poll.register(descriptor, select.EPOLLIN)
        alarm = self._watchdog.alarm
        self._poll.register(alarm.descriptor, alarm.mask)

    def run(self) -> None:
        """Start or restore the job, then serve until it has ended."""
        began = records.BeganRecord(time.time(), self._plan["limit"], self._plan["cgroups"])
        records.write_began(self._run, self._incarnation, began)
        if self._plan["start"] is not None:
            self._start(Start(**self._plan["start"]))
        else:
            self._restore(self._plan["restore"])
        while not self._done():
            try:
                ready = self._poll.poll(self._patience())
            except InterruptedError:
                continue
            for descriptor, _ in ready:
                if descriptor == self._wake:
                    os.read(self._wake, 512)
                elif descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._watchdog.alarm.descriptor:
                    if self._watchdog.must_ask():
                        self._tell(event="are-you-there")
                else:
                    self._listen_to_outgrow()
            self._reap()
            self._check_deadlines()
        self._leave()

    # -- the job's beginning and end

    def _start(self, start: Start) -> None:
        self._root, failure = start_in_child(start, self._plan["join"])
        if failure is not None:
            self._never_ran("exec")
            self._tell(event="failed", what="exec", errno=failure)
            os._exit(1)
        self._tell(event="started", root=self._root)

    def _restore(self, restore: dict[str, Any]) -> None:
        self._root = restore["root"]
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(restore["last_pid"]), encoding="ascii")
        self._engine = engine_in_child(restore["argv"], self._plan["join"], hand_on=True)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(_EVERY_OTHER_PROCESS, os.WNOHANG)
            except ChildProcessError:
                if self._ended:
                    self._leave()
                return
            if pid == 0:
                return
            if pid == self._engine:
                self._engine_ended(os.waitstatus_to_exitcode(status))
            elif pid == self._root:
                self._job_ended(status)

    def _engine_ended(self, status: int) -> None:
        self._engine = 0
        self._engine_deadline = None
        restoring, self._restoring = self._restoring, False
        early_end, self._early_end = self._early_end, None
        by_itself = early_end is not None and early_end & 0x7F != signal.SIGKILL
        if restoring and status != 0 and not by_itself:
            self._kill_all()
            self._never_ran("restore")
            self._tell(event="failed", what="restore", status=status)
            os._exit(1)
        if restoring:
            self._tell(event="started", root=self._root)
            if early_end is not None:
                self._job_ended(early_end)
        else:
            self._tell(event="engine-ended", status=status)
        if self._outgrow is None or self._watchdog.gone:
            self._watchdog.give_back()

    def _job_ended(self, status: int) -> None:
        if self._ended:
            return
        if self._restoring:  # so soon after it came back that its engine has not left yet
            self._early_end = status
            return
        # Told first: on a full disk the record cannot be written, and the status still counts.
        self._tell(event="ended", status=status)
        try:
            records.write_exit(
                self._run, self._incarnation, records.ExitRecord(at=time.time(), status=status)
            )
        except OSError:
            pass
        self._ended = True
        self._last_breath = time.monotonic() + self._plan["grace"]
        try:
            os.kill(_EVERY_OTHER_PROCESS, signal.SIGTERM)
            os.kill(_EVERY_OTHER_PROCESS, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def _leave(self) -> NoReturn:
        """The end, and with it that of everything that the job left behind. Without outgrow there
        is nobody else to remove the job's cgroup."""
        if self._outgrow is None:
            self._kill_all()
            self._remove_cgroups()
        os._exit(0)

    def _remove_cgroups(self) -> None:
        end = time.monotonic() + _CGROUP_EMPTIES
        for path in self._plan["cgroups"]:
            while time.monotonic() < end:
                self._reap_what_is_left()
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    break
                except OSError:  # its last process is still on its way out
                    time.sleep(0.01)
                else:
                    break

    def _reap_what_is_left(self) -> None:
        try:
            while os.waitpid(_EVERY_OTHER_PROCESS, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return

    def _never_ran(self, what: str) -> None:
        record = records.ExitRecord(at=time.time(), failed=what)
        records.write_exit(self._run, self._incarnation, record)

    def _done(self) -> bool:
        return self._last_breath is not None and time.monotonic() >= self._last_breath

    # -- outgrow

    def _accept(self) -> None:
        """Another outgrow takes the job over: only root, and only when the last one is gone."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if self._outgrow is not None or wire.peer(connection)[1] != 0:
            connection.close()
            return
        self._outgrow = connection
        self._watchdog.heard()
        self._poll.register(connection.fileno(), select.EPOLLIN)
        if not self._restoring:
            self._tell(event="started", root=self._root)

    def _listen_to_outgrow(self) -> None:
        if self._outgrow is None:
            return
        messages = wire.receive(self._outgrow)
        if messages is None:
            self._poll.unregister(self._outgrow.fileno())
            self._outgrow.close()
            self._outgrow = None
            self._outgrow_is_gone()
            return
        self._watchdog.heard()
        for message in messages:
            try:
                self._obey(message)
            except (OSError, KeyError, TypeError, ValueError) as error:
                self._tell(event="confused", what=repr(error))  # nothing of it ends the job

    def _obey(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "undo":
                self._watchdog.renew(message["writes"])
            case "frozen":
                self._watchdog.frozen(message["token"])
            case "thawed":
                self._watchdog.thawed()
            case "engine" if self._engine:
                self._tell(event="engine-ended", status=_ENGINE_BUSY)
            case "engine":
                self._engine_deadline = None
                self._engine = engine_in_child(message["argv"], [], hand_on=False)
            case "engine-stop":
                self._stop_engine()
            case "signal":
                self._signal(message["signal"], group=message["group"])
            case "release":
                self._release(message["token"], message["checkpoint"])
            case "end":
                self._kill_all()

    def _signal(self, number: int, *, group: bool) -> None:
        try:
            os.kill(-self._root if group else self._root, number)
        except (ProcessLookupError, PermissionError):
            if group:
                self._signal(number, group=False)

    def _release(self, token: int, checkpoint: int) -> None:
        if self._ended or not self._watchdog.stands_since(token):
            self._tell(event="refused", token=token)
            return
        record = records.ExitRecord(at=time.time(), released=checkpoint)
        try:
            records.write_exit(self._run, self._incarnation, record)
        except OSError as error:
            self._tell(event="refused", token=token, errno=error.errno)
            return
        self._ended = True
        self._kill_all()

    def _kill_all(self) -> None:
        """Every process of the namespace gets SIGKILL, and then is thawed to receive it."""
        try:
            os.kill(_EVERY_OTHER_PROCESS, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._watchdog.give_back()

    # -- deadlines

    def _patience(self) -> float:
        deadlines = [
            deadline
            for deadline in (self._engine_deadline, self._last_breath, self._hung_at())
            if deadline is not None
        ]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else -1

    def _hung_at(self) -> float | None:
        if self._outgrow is None or self._ended:
            return None
        return self._watchdog.deadline()

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        hung_at = self._hung_at()
        if hung_at is not None and now >= hung_at:
            self._outgrow_is_gone()
        if self._engine_deadline is not None and now >= self._engine_deadline:
            self._kill_engine()

    def _outgrow_is_gone(self) -> None:
        """Let the job go, as if outgrow were not there. An engine at work holds the job's tasks by
        ptrace, and is told to give up; when it has, the job is given back once more."""
        if self._ended:
            return
        token = self._watchdog.let_go()
        if token is not None:
            self._tell(event="let-go", token=token)
        self._watchdog.give_back()
        if self._engine and not self._restoring:
            self._stop_engine()

    def _stop_engine(self) -> None:
        if self._engine:
            stop_engine(self._engine)
            self._engine_deadline = time.monotonic() + ENGINE_GIVES_UP

    def _kill_engine(self) -> None:
        self._engine_deadline = None
        if self._engine:
            os.kill(self._engine, signal.SIGKILL)

    def _tell(self, **message: object) -> None:
        if self._outgrow is not None:
            wire.send(self._outgrow, **message)
