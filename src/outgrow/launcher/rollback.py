"""`python -m outgrow.launcher.rollback`: makes files again what they were at a checkpoint.

Works as the job's owner, so that no path can lead it to what she could not write herself. Reads a
plan from standard input, `{"uid", "gid", "groups", "entries"}`; prints one JSON object for each
entry as it is done: `{"path", "aside"}` or `{"path", "error", "errno"}`. Every step can be cut
short and done again: what is made stands under the name `NAME.outgrow-new` until it is whole.

Standard library only.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import Any

_PIECE = 1 << 20


def main() -> None:
    """See the module."""
    plan = json.loads(sys.stdin.buffer.read())
    if os.geteuid() == 0:
        os.setgroups(plan["groups"])
        os.setresgid(plan["gid"], plan["gid"], plan["gid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    for entry in plan["entries"]:
        done: dict[str, str | int | None] = {"path": entry["path"]}
        try:
            done["aside"] = put_back(entry)
        except OSError as error:
            done["error"], done["errno"] = error.strerror or str(error), error.errno
        print(json.dumps(done), flush=True)


def put_back(entry: dict[str, Any]) -> str:
    """Do one entry, a core.files.FileState and more: `change` is `cut`, `fill`, `create` or
    `aside`, `source` a descriptor of the copy, where there is one, `seen` the device and inode of
    what was found at its path. The path of what was kept aside, or nothing. Raises OSError."""
    if entry["change"] == "aside":
        return _put_aside(entry["path"])
    if entry["change"] == "create":
        return _create(entry)
    aside = ""
    access = os.O_WRONLY if entry["change"] == "fill" else os.O_RDWR
    flags = access | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(entry["path"], flags)
    try:
        _check(descriptor, entry)
        if entry["change"] == "cut":
            aside = _keep_tail(descriptor, entry)
        if "source" in entry:
            _fill(descriptor, entry["source"])
        os.ftruncate(descriptor, entry["size"])
        os.fsync(descriptor)
        os.utime(descriptor, ns=(entry["modified"], entry["modified"]))
    finally:
        os.close(descriptor)
    return aside


def _check(descriptor: int, entry: dict[str, Any]) -> None:
    status = os.fstat(descriptor)
    same = [status.st_dev, status.st_ino] == entry["seen"]
    if not same or not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is another file now")


def _keep_tail(descriptor: int, entry: dict[str, Any]) -> str:
    """All of it, even when somebody else appends to the file at the same time."""
    draft, tail = _draft(entry["path"], stat.S_IMODE(os.fstat(descriptor).st_mode))
    try:
        place = entry["size"]
        while os.fstat(descriptor).st_size > place:
            while piece := os.pread(descriptor, _PIECE, place):
                _write(tail, piece)
                place += len(piece)
            os.fsync(tail)
    finally:
        os.close(tail)
    aside = _free_name(entry["path"], "tail")
    os.rename(draft, aside)
    return aside


def _draft(path: str, mode: int) -> tuple[str, int]:
    """A new and empty file beside `path`: its name and a descriptor."""
    draft = f"{path}.outgrow-new"
    if os.path.lexists(draft):  # of one that was cut short
        os.unlink(draft)
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, mode)
    return draft, descriptor


def _fill(descriptor: int, source: int) -> None:
    place = 0
    while piece := os.pread(source, _PIECE, place):
        os.lseek(descriptor, place, os.SEEK_SET)
        _write(descriptor, piece)
        place += len(piece)


def _create(entry: dict[str, Any]) -> str:
    """Whole under another name first, then in place; what is there by now is kept aside."""
    os.makedirs(os.path.dirname(entry["path"]), 0o700, exist_ok=True)
    draft, descriptor = _draft(entry["path"], entry["mode"])
    try:
        _fill(descriptor, entry["source"])
        os.fsync(descriptor)
        os.utime(descriptor, ns=(entry["modified"], entry["modified"]))
    finally:
        os.close(descriptor)
    aside = _put_aside(entry["path"]) if os.path.lexists(entry["path"]) else ""
    os.rename(draft, entry["path"])
    return aside


def _put_aside(path: str) -> str:
    aside = _free_name(path, "aside")
    os.rename(path, aside)
    return aside


def _free_name(path: str, kind: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.outgrow-{kind}-{number}"):
        number += 1
    return f"{path}.outgrow-{kind}-{number}"


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
