"""The files that a job writes, at both ends of a checkpoint: copied beside the images when the job
is saved, and made again what they were before it goes back.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import stat
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from outgrow.core.errors import CannotSave, Damaged
from outgrow.core.files import Change, FileNow, FileState, needed_change
from outgrow.kernel.open_files import WrittenFile, written_files
from outgrow.launcher.program import own_program
from outgrow.ports import Description

_FICLONE = 0x40049409
"""ioctl_ficlone(2): both files share their blocks until one is written."""
_PIECE = 1 << 30
_SQLITE = b"SQLite format 3\0"
"""How a database begins (sqlite.org/fileformat.html)."""
_LONGEST_ROLLBACK = 3600.0


def capture(
    pids: Iterable[int], streams: Iterable[str], images: Path, most: int
) -> tuple[tuple[FileState, ...], tuple[str, ...]]:
    """What the standing processes `pids` have open for writing. Files that do not only grow are
    copied into `images`, the smallest first, up to `most` bytes in all; the paths of those that
    were too large come second. `streams`: paths of the job's standard streams. Blocking. Raises
    CannotSave when a copy cannot be written."""
    states, too_large, room, outer = [], [], most, {*streams}
    for number, file in enumerate(sorted(written_files(pids), key=_size), start=1):
        copy = ""
        if not file.grows:
            if file.status.st_size <= room:
                copy, room = f"written-{number}", room - file.status.st_size
                _copy(file, images / copy)
            else:
                too_large.append(file.path)
        states.append(
            FileState(
                path=file.path,
                device=file.status.st_dev,
                inode=file.status.st_ino,
                size=file.status.st_size,
                modified=file.status.st_mtime_ns,
                mode=stat.S_IMODE(file.status.st_mode),
                grows=file.grows,
                mapped=file.mapped,
                stream=file.path in outer,
                copy=copy,
            )
        )
        states += _absent_companions(file)
    return tuple(states), tuple(too_large)


def _absent_companions(file: WrittenFile) -> list[FileState]:
    """The journals that SQLite does not have beside a database now (sqlite.org/tempfiles.html)."""
    try:
        with file.opened.open("rb") as opened:
            if opened.read(len(_SQLITE)) != _SQLITE:
                return []
    except OSError:
        return []
    paths = [f"{file.path}{end}" for end in ("-journal", "-wal", "-shm")]
    return [
        FileState(path, 0, 0, 0, 0, 0, grows=False, absent=True)
        for path in paths
        if not os.path.lexists(path)
    ]


def put_back(description: Description, images: Path, *, ran_on: bool) -> list[str]:
    """Make the files of a checkpoint what they were, with the rights of the job's owner; what was
    kept aside of them. Blocking. Raises Damaged, naming the file and what to do, before anything is
    changed when one of them cannot be that."""
    plan, descriptors = [], []
    try:
        for state in description.files:
            change, why = needed_change(state, _now(state.path), ran_on=ran_on)
            if change is Change.REFUSE:
                raise _refusal(state.path, why)
            if change is Change.NOTHING:
                continue
            entry = {**asdict(state), "change": change.value}
            if state.copy:
                entry["source"] = os.open(images / state.copy, os.O_RDONLY | os.O_CLOEXEC)
                descriptors.append(int(entry["source"]))
            plan.append(entry)
        return _roll_back(plan, descriptors, description.owner) if plan else []
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _roll_back(
    plan: Sequence[dict[str, object]], descriptors: Sequence[int], owner: int
) -> list[str]:
    gid, groups = _groups(owner)
    work = {"uid": owner, "gid": gid, "groups": groups, "entries": plan}
    done = subprocess.run(
        own_program("outgrow.launcher.rollback"),
        input=json.dumps(work),
        capture_output=True,
        text=True,
        pass_fds=descriptors,
        timeout=_LONGEST_ROLLBACK,
        check=False,  # what it did is in its answers
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for answer in answers:
        if "error" in answer:
            raise _refusal(answer["path"], f"could not be put back ({answer['error']})")
    if len(answers) < len(plan):
        path = str(plan[len(answers)]["path"])
        raise _refusal(path, f"could not be put back ({done.stderr.strip()[-200:]})")
    return [answer["aside"] for answer in answers if answer["aside"]]


def _groups(uid: int) -> tuple[int, list[int]]:
    """Primary and all groups of a user; one that the host does not know has the group of her own
    number."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return uid, []
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)


def _refusal(path: str, why: str) -> Damaged:
    return Damaged(
        f"{path!r}, which the job was writing, {why}",
        preserved="its checkpoint is kept, and no file was overwritten",
        remedy="put the file back as it was, or start the job anew",
    )


def _now(path: str) -> FileNow | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileNow(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _size(file: WrittenFile) -> int:
    return file.status.st_size


def _copy(file: WrittenFile, target: Path) -> None:
    """The file that is open, not the one that its path may name by now."""
    try:
        with file.opened.open("rb") as source, target.open("xb") as copy:
            try:
                fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
            except OSError:  # another filesystem, or one that cannot share blocks
                _copy_bytes(source.fileno(), copy.fileno())
    except OSError as error:
        raise CannotSave(
            f"{file.path!r}, which the job writes, could not be copied ({error.strerror})",
            preserved="the job runs on",
            remedy="free some room, or lower --copy-files",
        ) from None


def _copy_bytes(source: int, target: int) -> None:
    while True:
        try:
            if not os.copy_file_range(source, target, _PIECE):
                return
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            break
    while os.sendfile(target, source, None, _PIECE):
        pass
