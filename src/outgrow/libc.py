"""System calls that Python 3.11's standard library does not have, through the C library."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWTIME = 0x00000080
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_SLAVE = 0x4000, 0x80000
MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4
_SYS_PIDFD_GETFD = 438
"""The same number on every architecture (arch/*/tools/syscall.tbl)."""
_SYS_IOPRIO = {"x86_64": (251, 252), "aarch64": (30, 31), "riscv64": (30, 31)}
"""Numbers of ioprio_set(2) and ioprio_get(2) (arch/*/tools/syscall.tbl)."""
_IOPRIO_WHO_PROCESS = 1
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36

_SYNC_FILE_RANGE_WRITE = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """unshare(2). Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """setns(2): join the namespace of that descriptor. Raises OSError."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    """mount(2) without options. Raises OSError."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), None), f"mount {target}")


def mlockall(flags: int) -> None:
    """mlockall(2): keep this process in memory. Raises OSError."""
    _check(_libc.mlockall(flags), "mlockall")


def pidfd_getfd(pidfd: int, descriptor: int) -> int:
    """A copy of another process's descriptor (pidfd_getfd(2), Linux 5.6). Raises OSError."""
    result = int(_libc.syscall(_SYS_PIDFD_GETFD, pidfd, descriptor, 0))
    if result < 0:
        _check(-1, "pidfd_getfd")
    os.set_inheritable(result, False)
    return result


def ioprio_get(tid: int) -> int:
    """ioprio_get(2) of one thread; 0, which is none, where its number is not known. Raises
    OSError."""
    if os.uname().machine not in _SYS_IOPRIO:
        return 0
    result = int(_libc.syscall(_SYS_IOPRIO[os.uname().machine][1], _IOPRIO_WHO_PROCESS, tid))
    if result < 0:
        _check(-1, "ioprio_get")
    return result


def ioprio_set(tid: int, priority: int) -> None:
    """ioprio_set(2) of one thread. Raises OSError."""
    number = _SYS_IOPRIO[os.uname().machine][0]
    _check(_libc.syscall(number, _IOPRIO_WHO_PROCESS, tid, priority), "ioprio_set")


def disconnect(descriptor: int) -> None:
    """connect(2) to nowhere (AF_UNSPEC): dissolves a connection; of TCP it is reset, at both ends.
    Raises OSError."""
    nowhere = bytes(16)
    _check(_libc.connect(descriptor, nowhere, len(nowhere)), "connect")


def start_writing(descriptor: int) -> None:
    """Have the kernel begin to write a file's dirty pages to disk (sync_file_range(2)). It makes
    nothing durable and takes note of no error: a write that fails is still told by the fsync(2)
    that follows (fs/sync.c, SYNC_FILE_RANGE_WRITE without either of the waits). Raises OSError.
    """
    _check(_libc.sync_file_range(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE), "sync_file_range")


def set_process_name(name: str) -> None:
    """The name that ps shows for this process, at most 15 bytes (prctl(2), PR_SET_NAME)."""
    _libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def become_subreaper() -> None:
    """Orphaned descendants become children of this process (prctl(2)). Raises OSError."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
