"""Copies of tests/trees, and writes to them that behave like the kernel's."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

TREES = Path(__file__).parents[2] / "trees"


def copy_tree(name: str, to: Path) -> Path:
    """A tree that a test may write to."""
    return Path(shutil.copytree(TREES / name, to / name))


class KernelWrites:
    """In place of `Files.write` of outgrow.kernel.files: each write is noted and becomes the whole
    content of the file, as the kernel's files have it. `refuse` names writes that fail, with their
    errno; `after` what else the kernel does on a write."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.refuse: dict[tuple[str, str], int] = {}
        self.after: dict[tuple[str, str], Callable[[], None]] = {}

    def __call__(self, path: Path | str, text: str) -> None:
        path = Path(path)
        self.seen.append((path.name, text))
        number = self.refuse.get((path.name, text))
        if number is not None:
            raise OSError(number, os.strerror(number))
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        path.write_text(text, encoding="ascii")
        self.after.get((path.name, text), lambda: None)()
