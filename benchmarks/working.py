"""The jobs of overhead.py: work of a fixed amount, that needs no more memory than it starts with.

    python3 working.py processor --amount 300

It prints one line: `OK SECONDS PROCESSOR-SECONDS`, from its first step of work to its last. On any
error it ends with another status. Standard library only.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import mmap
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MIB = 1 << 20
_FAULTED = 64 * MIB
_FILES = 200
_libc = ctypes.CDLL(None)
_libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


def processor(amount: int, _: Path) -> None:
    """Hashes, and the interpreter's own arithmetic: no system call at all."""
    block = bytes(MIB)
    for _step in range(amount):
        hashlib.sha256(block).digest()
        if sum(range(20_000)) != 199_990_000:
            raise ValueError("arithmetic")


def faults(amount: int, _: Path) -> None:
    """64 MiB are mapped, touched page by page and given back, over and over."""
    for step in range(amount):
        memory = mmap.mmap(-1, _FAULTED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        view = ctypes.c_char.from_buffer(memory)
        _libc.memset(ctypes.addressof(view), step & 0xFF, _FAULTED)
        del view
        memory.close()


def files(amount: int, folder: Path) -> None:
    """Small files are made, written, read, renamed and removed: hundreds of thousands of system
    calls."""
    content = b"a line of text\n" * 100
    for _step in range(amount):
        for number in range(_FILES):
            path = folder / str(number)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(descriptor, content)
            if os.pread(descriptor, 2 * len(content), 0) != content:
                raise ValueError("a file")
            os.close(descriptor)
            os.rename(path, folder / f"{number}.done")
            os.stat(folder / f"{number}.done")
        for number in range(_FILES):
            os.unlink(folder / f"{number}.done")


KINDS: dict[str, Callable[[int, Path], None]] = {
    "processor": processor,
    "faults": faults,
    "files": files,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Work, and say how long it took.")
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("--amount", type=int, required=True, help="how many rounds")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="for its files")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        began, used = time.perf_counter(), time.process_time()
        KINDS[options.kind](options.amount, folder)
        print(f"OK {time.perf_counter() - began:.6f} {time.process_time() - used:.6f}", flush=True)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
