"""The last steps of a process before it becomes the job, or the engine."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from outgrow import libc

STREAMS = (0, 1, 2)
WAITER = Path(__file__).with_name("waiter.py")
INHERITED_AT = 10
"""Where a restoring engine finds the job's outer streams: stream 0 at descriptor 10, and so on."""


_ENGINE_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
"""Nothing of the user's: an engine runs as root, and a variable or a configuration file of the
user's could have it load a library or run a script."""


@dataclass(frozen=True)
class Start:
    """How to start a job: all that a process inherits, as the user had it."""

    argv: Sequence[str]
    directory: str
    environment: dict[str, str]
    uid: int
    gid: int
    groups: Sequence[int]
    umask: int
    nice: int
    oom_score_adj: int
    streams: Sequence[dict[str, int | str]]
    """Devices to open again inside the mount namespace: `stream`, `path`, `flags`."""
    wait_all: bool = False
    """Whether the job ends only when the last of its processes has."""


def start_in_child(start: Start, join: Sequence[str]) -> tuple[int, int | None]:
    """Fork and become the job. Its PID, and the errno of a failed exec or None."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    before = _begin_own_time()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            _become_job(start, join, write_end)
        except OSError as error:
            os.write(write_end, str(error.errno or errno.EIO).encode())
        finally:
            os._exit(127)
    _end_own_time(before)
    os.close(write_end)
    failure = os.read(read_end, 16)
    os.close(read_end)
    return pid, int(failure) if failure else None


def _begin_own_time() -> int:
    """What is forked from now on gets a time namespace (time_namespaces(7), Linux 5.6), in which an
    engine lets CLOCK_MONOTONIC go on from where it stood. Where the kernel has none, the clock
    jumps by the length of a pause. What to give to `_end_own_time`."""
    try:
        before = os.open("/proc/self/ns/time", os.O_RDONLY | os.O_CLOEXEC)
        libc.unshare(libc.CLONE_NEWTIME)
    except OSError:
        return -1
    return before


def _end_own_time(before: int) -> None:
    """PID 1 and its engines stay in the time that they are in."""
    if before < 0:
        return
    try:
        libc.setns(before, libc.CLONE_NEWTIME)
    except OSError:
        pass  # an engine does not see the job's time then, and its clocks jump by a pause
    os.close(before)


def engine_in_child(argv: Sequence[str], join: Sequence[str], *, hand_on: bool) -> int:
    """Fork and become the engine, in the cgroups of `join` where given. Its PID.

    With `hand_on` it gets this process's streams at `INHERITED_AT` and above; its own are null, so
    that nothing it says gets into the job's output.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _join(join)
            _default_signals()
            # So that `stop_engine` makes its writes fail, and does not kill it.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            for stream in STREAMS if hand_on else ():
                os.dup2(stream, INHERITED_AT + stream)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in STREAMS:
                os.dup2(null, stream)
            os.execve(argv[0], list(argv), _ENGINE_ENVIRONMENT)
        finally:
            os._exit(127)
    return pid


def stop_engine(pid: int) -> None:
    """Have an engine give up: from now on every write of it fails, as on a full disk, and it takes
    the way out that it has for that. Killing it instead, in the moment in which it steps one of
    the job's tasks through a system call, would leave that task on a breakpoint, and kill it."""
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
    except (ProcessLookupError, PermissionError):
        pass


def _become_job(start: Start, join: Sequence[str], keep: int) -> NoReturn:
    waiter = WAITER.read_text(encoding="utf-8") if start.wait_all else ""
    os.setsid()
    # What its processes leave behind becomes its own child, as it does of the first process of a
    # container, and not PID 1's: an engine writes down this one with all that descends from it.
    libc.become_subreaper()
    _join(join)
    os.setpriority(os.PRIO_PROCESS, 0, start.nice)
    _set_oom_score_adj(start.oom_score_adj)
    for stream in start.streams:
        _open_again(stream)
    _default_signals()
    os.chdir(start.directory)
    if os.getuid() != start.uid or os.getgid() != start.gid or start.uid != 0:
        os.setgroups(list(start.groups))
        os.setresgid(start.gid, start.gid, start.gid)
        os.setresuid(start.uid, start.uid, start.uid)
    os.umask(start.umask)
    _close_all_but((*STREAMS, keep))
    program = _found(start.argv[0], start.environment.get("PATH", os.defpath))
    if waiter:
        os.set_inheritable(keep, True)
        words = [sys.executable, "-I", "-S", "-c", waiter, str(keep), program, *start.argv]
        os.execve(sys.executable, words, start.environment)
    try:
        os.execve(program, list(start.argv), start.environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    # As execvp(3) and every shell do with a script that names no interpreter.
    os.execve("/bin/sh", ["/bin/sh", program, *start.argv[1:]], start.environment)


def _found(program: str, path: str) -> str:
    """The file that a shell would execute. Raises FileNotFoundError, or PermissionError where there
    are only files that cannot be executed."""
    if "/" in program:
        return program
    reason = errno.ENOENT
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{program}"
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
        if os.path.exists(candidate):
            reason = errno.EACCES
    raise OSError(reason, os.strerror(reason), program)


def _join(files: Sequence[str]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, b"0")
        os.close(descriptor)


def _set_oom_score_adj(value: int) -> None:
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, str(value).encode())
        os.close(descriptor)
    except OSError:
        pass  # lowering it needs CAP_SYS_RESOURCE; then nothing had lowered it before either


def _open_again(stream: dict[str, int | str]) -> None:
    target = int(stream["stream"])
    descriptor = os.open(str(stream["path"]), int(stream["flags"]))
    if descriptor != target:
        os.dup2(descriptor, target)
        os.close(descriptor)
    else:
        os.set_inheritable(target, True)


def _default_signals() -> None:
    """Python ignores these two for itself; a program that it starts must not."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)


def _close_all_but(keep: Sequence[int]) -> None:
    lowest = 0
    for descriptor in sorted(keep):
        if descriptor > lowest:  # an empty range is taken for one without end (CPython 3.11)
            os.closerange(lowest, descriptor)
        lowest = descriptor + 1
    os.closerange(lowest, os.sysconf("SC_OPEN_MAX"))
