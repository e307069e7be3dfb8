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
    append, or write only and stand at its end. `shared`: all of them append, and none reads.
    `mapped`: some of them write by stores to memory.
    """

    path: str
    opened: Path
    status: os.stat_result
    grows: bool
    shared: bool
    mapped: bool


@dataclass(frozen=True)
class _Way:
    """One by which a process may write to a file: its fields are those of WrittenFile."""

    opened: Path
    grows: bool = False
    shared: bool = False
    mapped: bool = False


def written_files(pids: Iterable[int], proc: Path = PROC) -> list[WrittenFile]:
    """By path. Deleted files, and those that this process cannot see by their path (in mounts of
    the job's own), are left out. Processes that end meanwhile have none."""
    found: dict[tuple[int, int], WrittenFile] = {}
    for pid in pids:
        for way in (*_descriptors(pid, proc), *_mappings(proc / str(pid))):
            file = _file(way)
            if file is None:
                continue
            key = (file.status.st_dev, file.status.st_ino)
            known = found.get(key, file)
            found[key] = replace(
                known,
                grows=known.grows and way.grows,
                shared=known.shared and way.shared,
                mapped=known.mapped or way.mapped,
            )
    return sorted(found.values(), key=lambda file: file.path)


def _descriptors(pid: int, proc: Path) -> Iterator[_Way]:
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
            if not os.readlink(opened).startswith("/"):
                continue
            size = opened.stat().st_size
        except (OSError, KeyError, ValueError):
            continue
        only_writes = flags & os.O_ACCMODE == os.O_WRONLY
        appends = bool(flags & os.O_APPEND)
        grows = appends or (only_writes and place == size)
        yield _Way(opened, grows, shared=appends and only_writes)


def _mappings(process: Path) -> Iterator[_Way]:
    """Shared and writable ones: a store to memory changes the file."""
    try:
        lines = (process / "maps").read_bytes().split(b"\n")  # a name may hold any other separator
    except OSError:
        return
    for line in lines[:-1]:
        addresses, rights, _, _, inode, *_ = line.split(maxsplit=5)
        if rights[1:2] == b"w" and rights[3:4] == b"s" and inode != b"0":
            yield _Way(process / "map_files" / addresses.decode("ascii"), mapped=True)


def _file(way: _Way) -> WrittenFile | None:
    try:
        status = way.opened.stat()
        path = os.readlink(way.opened)
        path.encode()
        there = os.stat(path)
    except (OSError, UnicodeEncodeError):  # a name that no manifest can hold
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink == 0:
        return None
    if (there.st_dev, there.st_ino) != (status.st_dev, status.st_ino):
        return None
    return WrittenFile(path, way.opened, status, way.grows, way.shared, way.mapped)
