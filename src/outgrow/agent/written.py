"""The files that a job writes, at the one end of a checkpoint: noted, and copied beside the images,
when it is saved. For the other end see agent/put_back.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from outgrow.core.files import FileState
from outgrow.core.units import MIB
from outgrow.kernel.mentioned import mentioned_paths
from outgrow.kernel.open_files import WrittenFile, written_files

_FICLONE = 0x40049409
"""ioctl_ficlone(2): both files share their blocks until one is written."""
_PIECE = 1 << 30
_SQLITE = b"SQLite format 3\0"
"""How a database begins (sqlite.org/fileformat.html)."""

_MOST_TEMPORARY_FILES = 256
_MOST_OF_TEMPORARY = 64 * MIB
"""What is larger is data, which costs too much to copy with each save."""


def capture(
    pids: Sequence[int], owner: int, streams: Iterable[str], images: Path, most: int
) -> tuple[tuple[FileState, ...], tuple[str, ...]]:
    """What the standing processes `pids` have open for writing, and the temporary files of `owner`
    that they know by name. Of those that may be rewritten or deleted copies go into `images`: first
    what seems to be rewritten, the smallest first, up to `most` bytes in all. What is rewritten and
    has no copy comes second, with the reason. `streams`: paths of the job's standard streams.
    Blocking."""
    copies, outer = _Copies(images, most), {*streams}
    states: list[FileState] = []
    not_copied = []
    for file in sorted(written_files(pids), key=lambda file: (file.grows, file.status.st_size)):
        copy, is_stream = "", file.path in outer
        if not file.shared and not (file.grows and is_stream):
            try:
                copy = copies.add(file.opened, os.O_RDONLY)
            except OSError as error:
                if not file.grows:
                    not_copied.append(f"{file.path!r} {error.strerror}")
        state = _state(file.path, file.status, grows=file.grows, shared=file.shared)
        states.append(replace(state, mapped=file.mapped, stream=is_stream, copy=copy))
        states += _absent_companions(file)
    copies.room = min(copies.room, _MOST_OF_TEMPORARY)
    known = {state.path for state in states}
    for path in sorted(mentioned_paths(pids) - known)[:_MOST_TEMPORARY_FILES]:
        try:
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_uid == owner:
                copy = copies.add(path, os.O_RDONLY | os.O_NOFOLLOW, owner)
                states.append(replace(_state(path, status), temporary=True, copy=copy))
        except OSError:  # it is none, or gone
            continue
    return tuple(states), tuple(not_copied)


class _Copies:
    """The copies in one checkpoint, of `room` bytes at most."""

    def __init__(self, images: Path, room: int) -> None:
        self._images = images
        self.room = room
        self._number = 0

    def add(self, path: Path | str, flags: int, owner: int | None = None) -> str:
        """Copy what is there, when `owner` is not another than its own. The name of the copy.
        Raises OSError, whose text says why not, and nothing is left of it then."""
        source = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(source)
            if owner is not None and (
                status.st_uid != owner
                or not stat.S_ISREG(status.st_mode)
                # A directory on its way may be a link that somebody else has made.
                or os.readlink(f"/proc/self/fd/{source}") != path
            ):
                raise OSError(errno.EPERM, "is another's")
            if status.st_size > self.room:
                raise OSError(errno.EFBIG, "is larger than --copy-files allows")
            self._number += 1
            target = self._images / f"written-{self._number}"
            try:
                _copy(source, target)
            except OSError as error:
                target.unlink(missing_ok=True)
                raise OSError(error.errno, f"could not be copied ({error.strerror})") from None
            self.room -= status.st_size
            return target.name
        finally:
            os.close(source)


def _state(
    path: str, status: os.stat_result, *, grows: bool = False, shared: bool = False
) -> FileState:
    return FileState(
        path=path,
        inode=status.st_ino,
        size=status.st_size,
        modified=status.st_mtime_ns,
        mode=stat.S_IMODE(status.st_mode),
        grows=grows,
        shared=shared,
    )


def _absent_companions(file: WrittenFile) -> list[FileState]:
    """The journals that SQLite does not have beside a database now (sqlite.org/tempfiles.html)."""
    try:
        with file.opened.open("rb") as opened:
            if opened.read(len(_SQLITE)) != _SQLITE:
                return []
    except OSError:
        return []
    paths = [f"{file.path}{end}" for end in ("-journal", "-wal", "-shm")]
    return [
        FileState(path, 0, 0, 0, 0, grows=False, absent=True)
        for path in paths
        if not os.path.lexists(path)
    ]


def _copy(source: int, target: Path) -> None:
    with target.open("xb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, source)
        except OSError:  # another filesystem, or one that cannot share blocks
            _copy_bytes(source, copy.fileno())


def _copy_bytes(source: int, target: int) -> None:
    while True:
        try:
            if not os.copy_file_range(source, target, _PIECE):
                return
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            break
    while os.sendfile(target, source, None, _PIECE):
        pass
