"""The files that a job writes, at the other end of a checkpoint (agent/written.py): made again what
they were, before it goes back.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

from outgrow.core.errors import Damaged
from outgrow.core.files import Change, FileNow, needed_change
from outgrow.launcher.program import own_program
from outgrow.ports import Description

_LONGEST_ROLLBACK = 3600.0
_NOT_HERS = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors of a file that another opened for the job: root, who redirects what `--user` runs."""


def put_back(description: Description, images: Path, *, ran_on: bool) -> list[str]:
    """Make the files of a checkpoint what they were, with the rights of the job's owner; what there
    is to say of it, a sentence each. Blocking. Raises Damaged, naming the file and what to do,
    before anything is changed when one of them cannot be that. Can be cut short and done again."""
    plan, descriptors = [], []
    try:
        for state in description.files:
            status = _status(state.path)
            now = status and FileNow(status.st_ino, status.st_size, status.st_mtime_ns)
            change, why = needed_change(state, now, ran_on=ran_on)
            if change is Change.REFUSE:
                raise _refusal(state.path, why, "its checkpoint is kept, and no file was changed")
            if change is Change.NOTHING:
                continue
            entry = {**asdict(state), "change": change.value}
            if status is not None:
                entry["seen"] = [status.st_dev, status.st_ino]
            if state.copy:
                entry["source"] = os.open(images / state.copy, os.O_RDONLY | os.O_CLOEXEC)
                descriptors.append(int(entry["source"]))
            plan.append(entry)
        return _roll_back(plan, descriptors, description.owner) if plan else []
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _roll_back(plan: Sequence[dict[str, Any]], descriptors: Sequence[int], owner: int) -> list[str]:
    gid, groups = _groups(owner)
    work = {"uid": owner, "gid": gid, "groups": groups, "entries": plan}
    try:
        done = subprocess.run(
            own_program("outgrow.launcher.rollback"),
            input=json.dumps(work),
            capture_output=True,
            text=True,
            pass_fds=descriptors,
            timeout=_LONGEST_ROLLBACK,
            check=False,  # what it did is in its answers
        )
    except subprocess.TimeoutExpired as late:
        done = subprocess.CompletedProcess(late.cmd, 1, _text(late.stdout), "it took too long")
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
    failure = {"error": f"it stopped: {done.stderr.strip()[-200:]}"}
    notes = []
    for entry, answer in zip_longest(plan, answers, fillvalue=failure):
        if "error" not in answer:
            notes += [f"what it wrote later is kept as {answer['aside']!r}"] * bool(answer["aside"])
        elif entry["temporary"]:
            notes.append(
                f"{entry['path']!r}, a temporary file that is gone, could not be made again"
                f" ({answer['error']})"
            )
        elif entry["stream"] and answer.get("errno") in _NOT_HERS:
            notes.append(
                f"{entry['path']!r} could not be cut back ({answer['error']}):"
                " what it wrote later stays there, and comes again"
            )
        else:
            raise _refusal(
                entry["path"],
                f"could not be put back ({answer['error']})",
                "its checkpoint is kept, and so is what was cut off, beside each file",
            )
    return notes


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _groups(uid: int) -> tuple[int, list[int]]:
    """Primary and all groups of a user; one that the host does not know has the group of her own
    number."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return uid, []
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)


def _refusal(path: str, why: str, preserved: str) -> Damaged:
    return Damaged(
        f"{path!r}, which the job was writing, {why}",
        preserved=preserved,
        remedy="put the file back as it was, or start the job anew",
    )


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
