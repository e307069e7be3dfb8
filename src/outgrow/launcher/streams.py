"""A job's standard streams: how each can stay with it over a move.

- A pipe, a terminal or a file stays as it is, the very description that the user opened: its
  offset is shared with whoever else has it. It lives outside of the job, and is put in its place
  again on resume. In another terminal, that is this terminal's own for a pipe or a terminal, and
  the same file, where the job left it, for a file.
- A device such as /dev/null is opened again inside the job's mount namespace.
- Anything else (a socket, a file without a name, a file that another stream has open by another
  description, with an offset of its own) reaches the job through a pipe and a relay.
"""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outgrow import libc
from outgrow.core.errors import NotFound
from outgrow.launcher.program import own_program
from outgrow.ports import StreamKey

_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_SYNC | os.O_DSYNC | os.O_DIRECT
Descriptors = tuple[int, int, int]


@dataclass(frozen=True)
class Streams:
    """What to do with streams 0, 1 and 2.

    `descriptors` are handed to PID 1 in that order; `reopen` is `Start.streams`; `keys` name those
    that stay outside of the job.
    """

    descriptors: Descriptors
    keys: tuple[StreamKey, ...]
    reopen: tuple[dict[str, int | str], ...] = ()
    relays: tuple[subprocess.Popen[bytes], ...] = ()


def take_streams() -> Streams:
    """Look at this process's standard streams. Starts relays where they are needed."""
    descriptors = [0, 1, 2]
    reopen: list[dict[str, int | str]] = []
    relays: list[subprocess.Popen[bytes]] = []
    names: dict[str, int] = {}
    for stream in range(3):
        if _is_device(stream):
            path = os.readlink(f"/proc/self/fd/{stream}")
            reopen.append({"stream": stream, "path": path, "flags": _flags(stream)})
        elif (key := external_key(stream)) is None or not _is_one_description(
            names.setdefault(key, stream), stream
        ):
            descriptors[stream], relay = _relayed(stream, stream)
            relays.append(relay)
    handed = (descriptors[0], descriptors[1], descriptors[2])
    return Streams(handed, external_streams(handed), tuple(reopen), tuple(relays))


def streams_for(keys: Iterable[StreamKey]) -> Streams:
    """What a job that comes back, and held `keys` outside of itself, gets in this process: see the
    module. Raises NotFound when a file of it is gone."""
    descriptors = [0, 1, 2]
    relays = []
    opened: dict[str, int] = {}
    for key in keys:
        if key.path:  # one file is one description, whose offset the streams share
            if key.key not in opened:
                same = _is_file_of(key, key.stream)
                opened[key.key] = key.stream if same else _opened_again(key)
                _go_to_its_place(key, opened[key.key])
            descriptors[key.stream] = opened[key.key]
        elif not _is_pipe_or_terminal(key.stream):
            # A file in the place of a pipe: CRIU would open it anew, from its beginning.
            descriptors[key.stream], relay = _relayed(key.stream, key.stream)
            relays.append(relay)
    handed = (descriptors[0], descriptors[1], descriptors[2])
    return Streams(handed, external_streams(handed), relays=tuple(relays))


def streams_held_by(pidfd: int) -> Streams:
    """Those of a living PID 1: it keeps what it was handed for as long as it lives."""
    handed = (libc.pidfd_getfd(pidfd, 0), libc.pidfd_getfd(pidfd, 1), libc.pidfd_getfd(pidfd, 2))
    return Streams(handed, external_streams(handed))


def external_streams(descriptors: Sequence[int]) -> tuple[StreamKey, ...]:
    """The keys of those that live outside of the job, a file's with the place where it is now."""
    keys = []
    for stream, descriptor in enumerate(descriptors):
        key = external_key(descriptor)
        if key is None:
            continue
        if not key.startswith("file["):
            keys.append(StreamKey(stream, key))
            continue
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        flags = _flags(descriptor)
        reads = flags & os.O_ACCMODE == os.O_RDONLY
        at_end = reads or bool(flags & os.O_APPEND) or offset >= os.fstat(descriptor).st_size
        keys.append(StreamKey(stream, key, path, flags, offset, at_end))
    return tuple(keys)


def external_key(descriptor: int) -> str | None:
    """CRIU's name for a pipe, a terminal or a file with a path (criu(8), --external), else None."""
    status = os.fstat(descriptor)
    if _is_pipe(descriptor, status.st_mode):
        return f"pipe:[{status.st_ino}]"
    if os.isatty(descriptor):
        return f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
    if stat.S_ISREG(status.st_mode) and _has_path(descriptor, status):
        return f"file[{_mount_id(descriptor):x}:{status.st_ino:x}]"
    return None


def _is_pipe(descriptor: int, mode: int) -> bool:
    return stat.S_ISFIFO(mode) and os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:")


def _is_pipe_or_terminal(descriptor: int) -> bool:
    return _is_pipe(descriptor, os.fstat(descriptor).st_mode) or os.isatty(descriptor)


def _is_device(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    if not stat.S_ISCHR(status.st_mode) or os.isatty(descriptor):
        return False
    return _has_path(descriptor, status)


def _has_path(descriptor: int, here: os.stat_result) -> bool:
    """Whether it can be opened again by the name that it has now. Not so in /proc, which is another
    one inside the job."""
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    try:
        path.encode()
        there = os.stat(path)
    except (OSError, UnicodeEncodeError):
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) and (
        not path.startswith("/proc/")
    )


def _is_one_description(first: int, second: int) -> bool:
    """Whether two descriptors of one file share their description, and with it the offset. Pipes
    and terminals have none, so that it makes no difference there.

    A flag that means nothing for a file is turned over in the one and looked for in the other.
    """
    if first == second or not stat.S_ISREG(os.fstat(first).st_mode):
        return True
    before = os.get_blocking(second)
    os.set_blocking(first, not os.get_blocking(first))
    try:
        return os.get_blocking(second) != before
    finally:
        os.set_blocking(first, not os.get_blocking(first))


def _mount_id(descriptor: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "mnt_id":
            return int(value)
    return 0


def _flags(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & _KEPT_FLAGS


def _is_of(key: StreamKey, status: os.stat_result) -> bool:
    """Whether that is a file of the key's inode."""
    return stat.S_ISREG(status.st_mode) and key.key.endswith(f":{status.st_ino:x}]")


def _is_file_of(key: StreamKey, descriptor: int) -> bool:
    """Whether this process has that very file there, as in a script whose output is one log: then
    the job shares its place in it, and nobody writes over anybody."""
    status = os.fstat(descriptor)
    return (
        _is_of(key, status)
        and os.path.exists(key.path)
        and os.path.samestat(status, os.stat(key.path))
        and _flags(descriptor) & os.O_ACCMODE == key.flags & os.O_ACCMODE
    )


def _opened_again(key: StreamKey) -> int:
    """The very file that it was, wherever its path leads by now: this opens it with root's rights,
    and the path may be in the hands of somebody who has less."""
    try:
        # Not blocking, should it be a named pipe by now.
        descriptor = os.open(key.path, key.flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise _stream_is_gone(key, f"cannot be opened ({error.strerror})") from None
    status = os.fstat(descriptor)
    if not _is_of(key, status):
        os.close(descriptor)
        raise _stream_is_gone(key, "is another file now")
    os.set_blocking(descriptor, True)
    return descriptor


def _go_to_its_place(key: StreamKey, descriptor: int) -> None:
    """Where the job left it; but after what others have written to it since."""
    written = key.flags & os.O_ACCMODE != os.O_RDONLY and key.at_end
    end = os.lseek(descriptor, 0, os.SEEK_END)
    os.lseek(descriptor, max(key.offset, end) if written else key.offset, os.SEEK_SET)


def _stream_is_gone(key: StreamKey, why: str) -> NotFound:
    return NotFound(
        f"the job's stream {key.stream} was {key.path!r}, which {why}",
        preserved="its checkpoint is kept",
        remedy="put the file back where it was",
    )


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
