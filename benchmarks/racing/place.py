"""Where the jobs run: folders in memory and on disk, cgroups, and memory that is warm."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outgrow.core.errors import Unsupported
from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2
from outgrow.kernel.cgroups import find_hierarchies
from outgrow.kernel.clearing import kill_and_remove

MIB = 1 << 20
_EMPTIES = 10.0
"""Seconds that a killed job may take to be gone."""


class Place:
    """A folder on a tmpfs of its own, one on a tmpfs with huge pages, and one on disk; all of it
    is gone when the context is left, whatever happened."""

    def __init__(self, disk: Path, stream_mib: int, *, warm: bool) -> None:
        self._hierarchies = find_hierarchies()
        self._numbers = itertools.count(1)
        self._mounted: list[Path] = []
        self._stream_mib = stream_mib
        self._warm = warm
        self.stream_sums: dict[str, int] = {}
        self.root = Path(tempfile.mkdtemp(prefix="outgrow-race-"))
        self.disk = Path(tempfile.mkdtemp(prefix="outgrow-race-", dir=disk))
        self.small, self.huge = self.root / "small", self.root / "huge"
        self.stream = self.disk / "stream"

    @property
    def version(self) -> int:
        """Of the cgroups here. Raises Unsupported where there is none that can be used."""
        version = self._hierarchies.version
        if version is None:
            raise Unsupported("the race: no memory cgroup is mounted", remedy="see outgrow doctor")
        return version

    def __enter__(self) -> Place:
        try:
            for folder, huge in ((self.small, "never"), (self.huge, "always")):
                folder.mkdir()
                subprocess.run(
                    ["mount", "-t", "tmpfs", "-o", f"mode=700,huge={huge}", "race", str(folder)],
                    check=True,
                    timeout=10,
                )
                self._mounted.append(folder)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self._mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False, timeout=10)
        for folder in (self.root, self.disk):
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def cgroup(self, limit: int) -> Iterator[CgroupV1 | CgroupV2]:
        """A fresh one, with its limit set; what runs in it at the end is killed."""
        cgroup = self._hierarchies.cgroup(f"race-{os.getpid()}-{next(self._numbers)}")
        cgroup.create(limit)
        try:
            yield cgroup
        finally:
            cgroup.disarm()
            kill_and_remove(cgroup, _EMPTIES)

    def folder(self, kind: str, *, huge: bool) -> Path:
        """Where a job of this kind has its files."""
        if kind == "file":
            return self.disk
        return self.huge if kind == "tmpfs" and huge else self.small

    def clean(self) -> None:
        """Remove what a job has left."""
        for folder in (self.small, self.huge, self.disk):
            for file in folder.iterdir():
                if file.is_file() and file != self.stream and not file.name.startswith("source-"):
                    file.unlink()

    def warm(self, size: int) -> None:
        """Touch and free `size` bytes. A virtual machine's host takes freed memory back after some
        seconds, and its first touch is then 10 times slower: that would not be a fast job."""
        pid = os.fork() if self._warm else 0
        if pid:
            os.waitpid(pid, 0)
        elif self._warm:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_HUGEPAGE)
            ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, size)
            os._exit(0)

    def cold_stream(self) -> Path:
        """A file to stream, of which no page is in memory."""
        if not self.stream_sums:
            self._write_stream()
        descriptor = os.open(self.stream, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        return self.stream

    def _write_stream(self) -> None:
        whole = first = 0
        piece = b""
        with self.stream.open("wb", buffering=0) as file:
            for index in range(self._stream_mib):
                piece = index.to_bytes(8, "little") * (MIB // 8)
                file.write(piece)
                whole = zlib.crc32(piece, whole)
                first = zlib.crc32(bytes(MIB), first)
        self.stream_sums = {kind: whole for kind in ("read a file", "map a file", "copy a file")}
        self.stream_sums["write a file"] = first  # over and over the first piece, which is zeros
