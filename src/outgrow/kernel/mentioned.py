"""Which temporary files processes know by name, though they have them closed.

A compiler writes one, ends, and has the next program read it: between the two nobody has it open,
and only its name says whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from outgrow.core.units import KIB, MIB
from outgrow.kernel.proc import PROC

TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  (these are looked into, not written to)
_LARGEST_MAPPING = 4 * MIB
"""Names are in small ones: the heap of a shell or a compiler, an arena of Python's."""
_MOST_OF_ONE = 16 * MIB
_MOST_OF_ALL = 64 * MIB
"""Looking at so much takes some 0.1 s, in which the job stands."""
_LONGEST = 4 * KIB


def mentioned_paths(pids: Iterable[int], proc: Path = PROC) -> set[str]:
    """Paths below the directories for temporary files, $TMPDIR of each process among them, that are
    in the arguments or the small private memory of the processes. Whether there is such a file is
    not looked at."""
    found: set[str] = set()
    left = _MOST_OF_ALL
    for pid in pids:
        process = proc / str(pid)
        pattern = _pattern((*TEMPORARY, *_directory(process)))
        found.update(_paths(_read(process / "cmdline"), pattern))
        of_this = min(left, _MOST_OF_ONE)
        for piece in _memory(process, of_this):
            left -= len(piece)
            found.update(_paths(piece, pattern))
    return found


def _directory(process: Path) -> Iterator[str]:
    for variable in _read(process / "environ").split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name == b"TMPDIR" and value.startswith(b"/") and value.strip(b"/"):
            yield value.rstrip(b"/").decode(errors="surrogateescape")


def _pattern(directories: Iterable[str]) -> re.Pattern[bytes]:
    names = b"|".join(re.escape(name.encode(errors="surrogateescape")) for name in directories)
    return re.compile(rb"(?:%s)/[!-9;-~\x80-\xff]{1,%d}" % (names, _LONGEST))


def _paths(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[str]:
    """Without those that are no text: no checkpoint can name them."""
    for match in pattern.finditer(data):
        try:
            yield match.group().decode()
        except UnicodeDecodeError:
            continue


def _memory(process: Path, most: int) -> Iterator[bytes]:
    """Small private mappings that it can write to and that are of no file."""
    try:
        with (process / "mem").open("rb", buffering=0) as memory:
            for line in _read(process / "maps").split(b"\n")[:-1]:
                addresses, rights, _, _, inode, *_ = line.split(maxsplit=5)
                start, end = (int(word, 16) for word in addresses.split(b"-"))
                if rights[:4] != b"rw-p" or inode != b"0" or end - start > _LARGEST_MAPPING:
                    continue
                if end - start > most:
                    return
                memory.seek(start)
                piece = memory.read(end - start) or b""
                most -= len(piece)
                yield piece
    except OSError:
        return


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
