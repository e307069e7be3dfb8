"""`python -m outgrow.launcher.rollback`: makes files again what they were at a checkpoint.

Works as the job's owner, so that no path can lead it to what she could not write herself. Reads a
plan from standard input, `{"uid", "gid", "groups", "entries"}`; prints one JSON object for each
entry as it is done: `{"path", "aside"}` or `{"path", "error"}`. Every step can be cut short and
done again.

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
        done: dict[str, str] = {"path": entry["path"]}
        try:
            done["aside"] = put_back(entry)
        except OSError as error:
            done["error"] = error.strerror or str(error)
        print(json.dumps(done), flush=True)


def put_back(entry: dict[str, Any]) -> str:
    """Do one entry: `change` is `cut`, `fill`, `create` or `aside`, `source` a descriptor of the
    copy. The path of what was kept aside, or nothing. Raises OSError."""
    aside = ""
    if entry["change"] == "aside":
        aside = _put_aside(entry["path"])
    elif entry["change"] == "create":
        aside = _create(entry)
    else:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(entry["path"], flags)
        try:
            _check(descriptor, entry)
            if entry["change"] == "cut":
                aside = _keep_tail(descriptor, entry)
            else:
                _fill(descriptor, entry["source"])
            os.ftruncate(descriptor, entry["size"])
            os.fsync(descriptor)
            os.utime(descriptor, ns=(entry["modified"], entry["modified"]))
        finally:
            os.close(descriptor)
    return aside


def _check(descriptor: int, entry: dict[str, Any]) -> None:
    status = os.fstat(descriptor)
    same = (status.st_dev, status.st_ino) == (entry["device"], entry["inode"])
    if not same or not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is another file now")


def _keep_tail(descriptor: int, entry: dict[str, Any]) -> str:
    number = 1
    while True:
        aside = f"{entry['path']}.outgrow-tail-{number}"
        try:
            tail = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            break
        except FileExistsError:
            number += 1
    try:
        os.fchmod(tail, stat.S_IMODE(os.fstat(descriptor).st_mode))
        place = entry["size"]
        while piece := os.pread(descriptor, _PIECE, place):
            _write(tail, piece)
            place += len(piece)
        os.fsync(tail)
    finally:
        os.close(tail)
    return aside


def _fill(descriptor: int, source: int) -> None:
    place = 0
    while piece := os.pread(source, _PIECE, place):
        if os.pread(descriptor, len(piece), place) != piece:  # what is the same need not be written
            os.lseek(descriptor, place, os.SEEK_SET)
            _write(descriptor, piece)
        place += len(piece)


def _create(entry: dict[str, Any]) -> str:
    """Whole under another name first, then in place; what is there by now is kept aside."""
    draft = f"{entry['path']}.outgrow-{os.getpid()}"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, entry["mode"])
        _fill(descriptor, entry["source"])
        os.fsync(descriptor)
        os.utime(descriptor, ns=(entry["modified"], entry["modified"]))
        aside = _put_aside(entry["path"]) if os.path.lexists(entry["path"]) else ""
        os.rename(draft, entry["path"])
    except BaseException:
        os.unlink(draft)
        raise
    finally:
        os.close(descriptor)
    return aside


def _put_aside(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.outgrow-aside-{number}"):
        number += 1
    os.rename(path, f"{path}.outgrow-aside-{number}")
    return f"{path}.outgrow-aside-{number}"


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
