"""Reading and writing the kernel's small files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def read(path: Path | str) -> str:
    """The whole text of a file of the kernel, stripped. Raises OSError."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def write(path: Path | str, text: str) -> None:
    """One write(2) of `text`, as the kernel's files want it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


class Files:
    """Files of the kernel, some of which are opened beforehand for who is in a hurry: opening one
    takes the kernel memory, and up to 8 ms here under a job that had just filled 8 GiB."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def keep_open(self, path: Path, flags: int = os.O_RDWR) -> None:
        """Have it at hand from now on. Raises OSError."""
        if path not in self._open:
            self._open[path] = os.open(path, flags | os.O_CLOEXEC)

    def read(self, path: Path) -> str:
        """The whole text, at most 64 KiB, stripped. Raises OSError."""
        if path not in self._open:
            return read(path)
        with _gone(path):
            return os.pread(self._open[path], 1 << 16, 0).decode("ascii", "replace").strip()

    def write(self, path: Path, text: str) -> None:
        """One write(2) of `text`. Raises OSError."""
        if path not in self._open:
            write(path, text)
        else:
            with _gone(path):
                os.pwrite(self._open[path], text.encode(), 0)

    def close(self) -> None:
        """Nothing is at hand any more; all of it can still be read and written."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


@contextmanager
def _gone(path: Path) -> Iterator[None]:
    """What was removed while it was open gives ENODEV (kernfs): FileNotFoundError, as by name."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None


def key_values(text: str) -> dict[str, int]:
    """The numbers of a file of `key value` lines, such as memory.stat."""
    values = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if value.strip().lstrip("-").isdigit():
            values[key] = int(value)
    return values


def processes_below(directory: Path) -> list[int]:
    """PIDs in a cgroup and its children."""
    found: list[int] = []
    for folder, _, files in os.walk(directory):
        if "cgroup.procs" in files:
            try:
                found += [int(word) for word in read(Path(folder, "cgroup.procs")).split()]
            except OSError:  # it went away while we walked
                continue
    return found


def remove_tree(directory: Path) -> None:
    """rmdir a cgroup and its children, deepest first. Raises OSError while one is in use."""
    for folder, _, _ in os.walk(directory, topdown=False):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            continue
