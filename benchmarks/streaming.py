"""A job that only streams files: its own memory stays what it is, and the page cache fills up.

    python3 streaming.py "read a file" --file FILE --mib 600

It prints `OK BYTES CHECKSUM`, over every byte of the file. What it writes is beside the file, and
removed at its end. `--own` MiB are its own from the beginning, and checked at the end.
"""

from __future__ import annotations

import argparse
import mmap
import os
import sys
import zlib
from pathlib import Path

MIB = 1 << 20
PIECE = MIB


def read(path: Path) -> int:
    """By read(2)."""
    checksum = 0
    buffer = bytearray(PIECE)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            checksum = zlib.crc32(memoryview(buffer)[:count], checksum)
    return checksum


def map_(path: Path) -> int:
    """Through a mapping."""
    checksum = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        for start in range(0, len(memory), PIECE):
            checksum = zlib.crc32(memory[start : start + PIECE], checksum)
    return checksum


def copy(path: Path) -> int:
    """To another file, and that one is read."""
    target = path.with_name(f"{path.name}.copy-{os.getpid()}")
    try:
        with path.open("rb", buffering=0) as file, target.open("wb", buffering=0) as out:
            while piece := file.read(PIECE):
                out.write(piece)
        return read(target)
    finally:
        target.unlink()


def write(path: Path) -> int:
    """A file as large, of the first piece over and over."""
    target = path.with_name(f"{path.name}.written-{os.getpid()}")
    with path.open("rb") as file:
        piece = file.read(PIECE)
    checksum = 0
    try:
        with target.open("wb", buffering=0) as out:
            for _ in range(path.stat().st_size // PIECE):
                out.write(piece)
                checksum = zlib.crc32(piece, checksum)
        return checksum if read(target) == checksum else -1
    finally:
        target.unlink()


WAYS = {"read a file": read, "map a file": map_, "write a file": write, "copy a file": copy}


def main() -> int:
    parser = argparse.ArgumentParser(description="Stream a file, print its checksum.")
    parser.add_argument("way", choices=tuple(WAYS))
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--own", type=int, default=0, help="MiB of its own")
    options = parser.parse_args()
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    own = bytes([1]) * (options.own * MIB)
    sums = set()
    children = []
    for _ in range(options.processes - 1):
        out, into = os.pipe()
        if os.fork() == 0:
            os.write(into, str(WAYS[options.way](options.file)).encode())
            os._exit(0)
        os.close(into)
        children.append(out)
    sums.add(WAYS[options.way](options.file))
    sums |= {int(os.read(out, 32)) for out in children}
    if len(sums) != 1 or own.count(1) != options.own * MIB:
        print(f"not the same: {sums}", file=sys.stderr)
        return 1
    print(f"OK {options.file.stat().st_size} {sums.pop():08x}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
