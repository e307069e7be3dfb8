"""A job's standard streams: how each can stay with it over a move.

- A file or a device such as /dev/null is opened again inside the job's mount namespace, at the
  same offset; the engine writes it down by its path.
- A pipe or a terminal stays as it is. It lives outside of the job, and whoever resumes the job
  puts its own in that place.
- Anything else (a socket, a file without a name) reaches the job through a pipe and a relay.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from outgrow.launcher.program import own_program
from outgrow.ports import StreamKey

_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_SYNC | os.O_DSYNC | os.O_DIRECT


@dataclass(frozen=True)
class Streams:
    """What to do with streams 0, 1 and 2.

    `descriptors` are handed to PID 1 in that order; `reopen` is `Start.streams`; `keys` name those
    that stay outside of the job.
    """

    descriptors: tuple[int, int, int]
    reopen: tuple[dict[str, int | str], ...]
    keys: tuple[StreamKey, ...]
    relays: tuple[subprocess.Popen[bytes], ...] = ()


def take_streams() -> Streams:
    """Look at this process's standard streams. Starts relays where they are needed."""
    descriptors: list[int] = []
    reopen: list[dict[str, int | str]] = []
    keys: list[StreamKey] = []
    relays: list[subprocess.Popen[bytes]] = []
    for stream in range(3):
        descriptor = stream
        kind = os.fstat(descriptor).st_mode
        if _has_path(descriptor, kind):
            twin = _twin(stream, [int(entry["stream"]) for entry in reopen])
            reopen.append(_shared(stream, twin) if twin is not None else _entry(stream, descriptor))
        elif not (_is_pipe(descriptor, kind) or os.isatty(descriptor)):
            descriptor, relay = _relayed(stream, descriptor)
            relays.append(relay)
        descriptors.append(descriptor)
        key = external_key(descriptor)
        if key is not None:
            keys.append(StreamKey(stream, key))
    return Streams(
        (descriptors[0], descriptors[1], descriptors[2]), tuple(reopen), tuple(keys), tuple(relays)
    )


def outer_streams(streams: Iterable[int]) -> Streams:
    """This process's streams for a job that comes back and holds `streams` of them outside of
    itself: each as it is when it is a pipe or a terminal, else behind a relay."""
    descriptors = [0, 1, 2]
    relays = []
    for stream in sorted(set(streams)):
        if external_key(descriptors[stream]) is None:
            descriptors[stream], relay = _relayed(stream, descriptors[stream])
            relays.append(relay)
    return Streams((descriptors[0], descriptors[1], descriptors[2]), (), (), tuple(relays))


def external_key(descriptor: int) -> str | None:
    """CRIU's name for a pipe or terminal (its --external and --inherit-fd options), else None."""
    status = os.fstat(descriptor)
    if _is_pipe(descriptor, status.st_mode):
        return f"pipe:[{status.st_ino}]"
    if os.isatty(descriptor):
        return f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
    return None


def settle_offset(descriptor: int) -> None:
    """After the job: what is written next to this file follows what the job wrote, as it would had
    the job used this very descriptor."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    writable = flags & os.O_ACCMODE != os.O_RDONLY
    if writable and not flags & os.O_APPEND and stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.lseek(descriptor, 0, os.SEEK_END)


def _is_pipe(descriptor: int, mode: int) -> bool:
    return stat.S_ISFIFO(mode) and os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:")


def _has_path(descriptor: int, mode: int) -> bool:
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)) or os.isatty(descriptor):
        return False
    try:
        there = os.stat(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _entry(stream: int, descriptor: int) -> dict[str, int | str]:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & _KEPT_FLAGS
    try:
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        offset = 0
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    return {"stream": stream, "path": path, "flags": flags | os.O_CLOEXEC, "offset": offset}


def _shared(stream: int, twin: int) -> dict[str, int | str]:
    return {"stream": stream, "same_as": twin}


def _twin(stream: int, others: list[int]) -> int | None:
    """Another stream that is the same open file description, as after `> out 2>&1`: moving the
    offset of one moves the other's."""
    here = os.fstat(stream)
    for other in others:
        there = os.fstat(other)
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            continue
        if fcntl.fcntl(stream, fcntl.F_GETFL) != fcntl.fcntl(other, fcntl.F_GETFL):
            continue
        if not stat.S_ISREG(here.st_mode):
            return other
        offset = os.lseek(stream, 0, os.SEEK_CUR)
        os.lseek(stream, offset + 1, os.SEEK_SET)
        together = os.lseek(other, 0, os.SEEK_CUR) == offset + 1
        os.lseek(stream, offset, os.SEEK_SET)
        if together:
            return other
    return None


def _relayed(stream: int, descriptor: int) -> tuple[int, subprocess.Popen[bytes]]:
    """A pipe in place of `descriptor`, and the process that copies between the two."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    source, target = (descriptor, write_end) if stream == 0 else (read_end, descriptor)
    relay = subprocess.Popen(
        own_program("outgrow.launcher.relay"),
        stdin=source,
        stdout=target,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if stream == 0:
        os.close(write_end)
        return read_end, relay
    os.close(read_end)
    return write_end, relay
