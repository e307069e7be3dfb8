"""What PID 1 of a job leaves on disk, so that it is known even when nobody was there to hear it.

All of it lies in the job's run directory, one file per incarnation:

- `exit-N.json`   the incarnation ended: with the wait status of the job's first process, or
                  because it was released after checkpoint C was committed;
- `began-N.json`  PID 1 began to start or restore the job: from here on it may have run;
- `lock`          locked (fcntl(2), F_OFD_SETLK) by PID 1 for as long as the incarnation lives;
- `keeper`        locked by the process of outgrow that keeps the job.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LOCK = "lock"
KEEPER = "keeper"
SOCKET = "init.sock"


@dataclass(frozen=True)
class ExitRecord:
    """How an incarnation ended. `status` is a wait status as of wait(2); `at` in epoch seconds."""

    at: float
    status: int | None = None
    released: int | None = None
    """The checkpoint after whose commit the job was released."""
    failed: str | None = None
    """It never ran: what failed before it could."""

    def is_sound(self) -> bool:
        """Whether its fields are of their types: it was read from a file."""
        return (
            isinstance(self.at, int | float)
            and isinstance(self.status, int | None)
            and isinstance(self.released, int | None)
            and isinstance(self.failed, str | None)
        )


def write_exit(run: Path, incarnation: int, record: ExitRecord) -> None:
    """Write it durably. Raises OSError."""
    _write(run, f"exit-{incarnation}.json", asdict(record))


def read_exit(run: Path, incarnation: int) -> ExitRecord | None:
    """How the incarnation ended; None while it lives, or when nobody could say."""
    data = _read(run / f"exit-{incarnation}.json")
    try:
        record = None if data is None else ExitRecord(**data)
    except TypeError:
        return None
    return record if record is not None and record.is_sound() else None


def forget(run: Path, incarnation: int) -> None:
    """Remove the records of an incarnation that is about to begin: one of the same number was
    tried before and never ran."""
    for name in ("began", "exit"):
        (run / f"{name}-{incarnation}.json").unlink(missing_ok=True)


@dataclass(frozen=True)
class BeganRecord:
    """That an incarnation may have run: since `at`, in seconds since the epoch, under `limit` bytes
    in these cgroups."""

    at: float
    limit: int
    cgroups: Sequence[str]


def write_began(run: Path, incarnation: int, record: BeganRecord) -> None:
    """Note, durably, that the incarnation may run from now on. Raises OSError."""
    _write(run, f"began-{incarnation}.json", asdict(record))


def read_began(run: Path, incarnation: int) -> BeganRecord | None:
    """The note; None when the incarnation never ran."""
    data = _read(run / f"began-{incarnation}.json")
    try:
        return None if data is None else BeganRecord(**data)
    except TypeError:
        return None


def has_begun(run: Path, incarnation: int) -> bool:
    """Whether the incarnation may ever have run, even if the note of it cannot be read."""
    return (run / f"began-{incarnation}.json").exists()


def newest_begun(run: Path) -> int:
    """The highest number of an incarnation that may have run, 0 when there is none."""
    numbers = [path.stem.removeprefix("began-") for path in run.glob("began-*.json")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


_FLOCK = "hhqqi4x"
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""
_WHOLE_FILE = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class Lock:
    """A lock that is held until `close`, or until the last process that inherited it dies."""

    def __init__(self, path: Path) -> None:
        """Take it. Raises BlockingIOError when another has it, FileNotFoundError without its
        directory."""
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except OSError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Give it back."""
        os.close(self.descriptor)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock. Looking does not take it, not even for a moment."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)


def _write(run: Path, name: str, data: dict[str, object]) -> None:
    beside = run / f".{name}.new"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        text = json.dumps(data).encode()
        if os.write(descriptor, text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.rename(run / name)
    folder = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
