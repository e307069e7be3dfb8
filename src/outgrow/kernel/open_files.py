"""Which regular files processes have open for writing, as /proc says (proc(5))."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from outgrow.kernel.files import read
from outgrow.kernel.proc import PROC, descriptors


@dataclass(frozen=True)
class WrittenFile:
    """A file with a name that processes may write to.

    `opened` is a way to that very file, whatever its path leads to by now. `grows`: all of them
    append, or write only and stand at its end. `mapped`: some of them by stores to memory.
    """

    path: str
    opened: Path
    status: os.stat_result
    grows: bool
    mapped: bool


def written_files(pids: Iterable[int], proc: Path = PROC) -> list[WrittenFile]:
    """By path. Deleted files, and those that this process cannot see by their path (in mounts of
    the job's own), are left out. Processes that end meanwhile have none."""
    found: dict[tuple[int, int], WrittenFile] = {}
    for pid in pids:
        process = proc / str(pid)
        ways = [(opened, grows, False) for opened, grows in _descriptors(pid, proc)]
        ways += [(opened, False, True) for opened in _mappings(process)]
        for opened, grows, mapped in ways:
            file = _file(opened, grows, mapped)
            if file is None:
                continue
            key = (file.status.st_dev, file.status.st_ino)
            known = found.get(key, file)
            found[key] = replace(known, grows=known.grows and grows, mapped=known.mapped or mapped)
    return sorted(found.values(), key=lambda file: file.path)


def _descriptors(pid: int, proc: Path) -> Iterator[tuple[Path, bool]]:
    process = proc / str(pid)
    for number in descriptors(pid, proc):
        try:
            fields = dict(
                line.split(":", 1)
                for line in read(process / "fdinfo" / str(number)).splitlines()[:2]
            )
            flags, place = int(fields["flags"], 8), int(fields["pos"])
            if flags & os.O_ACCMODE == os.O_RDONLY or flags & os.O_PATH:
                continue
            opened = process / "fd" / str(number)
            size = opened.stat().st_size
        except (OSError, KeyError, ValueError):
            continue
        at_end = flags & os.O_ACCMODE == os.O_WRONLY and place == size
        yield opened, bool(flags & os.O_APPEND) or at_end


def _mappings(process: Path) -> Iterator[Path]:
    """Shared and writable ones: a store to memory changes the file."""
    try:
        lines = read(process / "maps").splitlines()
    except OSError:
        return
    for line in lines:
        addresses, rights, _, _, inode, *_ = line.split(maxsplit=5)
        if rights[1] == "w" and rights[3] == "s" and inode != "0":
            yield process / "map_files" / addresses


def _file(opened: Path, grows: bool, mapped: bool) -> WrittenFile | None:
    try:
        status = opened.stat()
        path = os.readlink(opened)
        path.encode()
        there = os.stat(path)
    except (OSError, UnicodeEncodeError):  # a name that no manifest can hold
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink == 0:
        return None
    if (there.st_dev, there.st_ino) != (status.st_dev, status.st_ino):
        return None
    return WrittenFile(path, opened, status, grows, mapped)
