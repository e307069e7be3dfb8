"""The job of dump.py: it holds memory, says that it runs, and checks every byte when it is asked.

    python3 holding.py --mib 512 --kind random --board FILE

What it says stands on the board, a page of that file that whoever measures maps as well: when it
was last seen to run, and the longest time for which it did not. These are the job's own times, by
the clock of the day: any other would not show the job how long it stood (time_namespaces(7)).
Standard library only.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import sys
import time
from pathlib import Path

MIB = 1 << 20
BLOCK = 16 * MIB
"""The first block of the memory; each other one is the same, turned by so many bytes that no two of
their pages are alike."""
TURN = 4099 * 8
KINDS = ("text", "random")
STEP = 0.0005
"""Seconds between two signs of life."""
LONGEST_LIFE = 900
"""Seconds, after which a job that nobody looks after any more ends by itself."""

_READY, _LAST, _LONGEST, _BEFORE, _AFTER, _CHECK, _RIGHT = range(7)
_libc = ctypes.CDLL(None)
for _name in ("memmove", "memcmp"):
    getattr(_libc, _name).argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Board:
    """The shared page. Times in nanoseconds since the epoch."""

    def __init__(self, file: Path) -> None:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.words = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE)).cast("q")
        finally:
            os.close(descriptor)

    @classmethod
    def make(cls, file: Path) -> Board:
        """A new one."""
        file.write_bytes(bytes(mmap.PAGESIZE))
        return cls(file)

    @property
    def ready(self) -> bool:
        """Whether the job holds all its memory."""
        return self.words[_READY] != 0

    @property
    def last(self) -> int:
        """When the job was last seen to run."""
        return self.words[_LAST]

    def forget(self) -> None:
        """What stood still before now does not count. Only while the job runs."""
        self.words[_LONGEST] = 0

    def pause(self) -> tuple[int, int]:
        """The last moment before the longest pause, and the first after it."""
        return self.words[_BEFORE], self.words[_AFTER]

    def alive(self) -> None:
        """A sign of life, by the job."""
        now, last = time.time_ns(), self.words[_LAST]
        if last and now - last > self.words[_LONGEST]:
            self.words[_BEFORE], self.words[_AFTER] = last, now
            self.words[_LONGEST] = now - last
        self.words[_LAST] = now

    def ask(self) -> None:
        """Have the job check what it holds."""
        self.words[_RIGHT] = 0
        self.words[_CHECK] = 1

    def asked(self) -> bool:
        """Whether to check now, for the job; once."""
        wanted = self.words[_CHECK] != 0
        self.words[_CHECK] = 0
        return wanted

    @property
    def right(self) -> bool | None:
        """What the check found; None while there is no answer."""
        return {0: None, 1: True}.get(self.words[_RIGHT], False)

    def answer(self, right: bool) -> None:
        """The job's answer."""
        self.words[_RIGHT] = 1 if right else 2

    def is_filled(self) -> None:
        """The job holds all its memory."""
        self.words[_READY] = 1


class Held:
    """Memory of `mib` MiB, a whole number of blocks, and all of it touched."""

    def __init__(self, kind: str, mib: int) -> None:
        self.count = mib * MIB // BLOCK
        self.memory = mmap.mmap(-1, self.count * BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.memory[:BLOCK] = first_block(kind)
        for index in range(1, self.count):
            turn = _turn(index)
            at = self._address + index * BLOCK
            _libc.memmove(at, self._address + turn, BLOCK - turn)
            _libc.memmove(at + BLOCK - turn, self._address, turn)

    def is_right(self) -> bool:
        """Whether every block is what was put there, by the first."""
        for index in range(1, self.count):
            turn = _turn(index)
            at = self._address + index * BLOCK
            if _libc.memcmp(at, self._address + turn, BLOCK - turn):
                return False
            if _libc.memcmp(at + BLOCK - turn, self._address, turn):
                return False
        return True


def first_block(kind: str) -> bytes:
    """16 MiB of lines of text, which compress to a tenth, or of random bytes, which do not."""
    if kind == "random":
        return os.urandom(BLOCK)
    line = len(_line(0))
    return b"".join(map(_line, range(MIB // line + 1)))[:MIB] * (BLOCK // MIB)


def _line(number: int) -> bytes:
    return b"%012d  a record of a job, as they look in memory\n" % number


def _turn(index: int) -> int:
    return index * TURN % BLOCK


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold memory, and say that it runs.")
    parser.add_argument("--mib", type=int, required=True)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--board", type=Path, required=True)
    options = parser.parse_args()
    board = Board(options.board)
    held = Held(options.kind, options.mib)
    board.is_filled()
    end = time.time() + LONGEST_LIFE
    while time.time() < end:
        board.alive()
        if board.asked():
            board.answer(held.is_right())
        time.sleep(STEP)
    return 1


if __name__ == "__main__":
    sys.exit(main())
