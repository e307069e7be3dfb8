"""The files that a job writes: what they were at a checkpoint, and what to do when it goes back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class FileState:
    """A regular file that a job had open for writing, or knew of, when it was saved; `size` in
    bytes, `modified` in nanoseconds since the epoch."""

    path: str
    inode: int
    """Its device is not noted: that number changes with the next boot, and with the next mount of
    what has no disk of its own (NFS, btrfs, tmpfs)."""

    size: int
    modified: int
    mode: int
    """Permissions (chmod(2))."""

    grows: bool
    """Whether it seems to be only ever appended to: all who write to it append, or write only and
    stand at its end."""

    shared: bool = False
    """Whether others may append to it as well, in nobody's way: all who write to it do so by
    O_APPEND, and none of them reads."""

    mapped: bool = False
    """Whether it is mapped: a store to memory then changes it, and `modified` need not tell."""

    stream: bool = False
    """A standard stream of the job, which others may write to as well."""

    absent: bool = False
    """Whether there was none, and one would mean something to the job: the journal of a database,
    from which it would recover what never happened."""

    temporary: bool = False
    """Whether the job only knew its name: it is made anew when it is gone, else left as it is."""

    copy: str = ""
    """Name of its copy in the checkpoint; empty where there is none."""


@dataclass(frozen=True)
class FileNow:
    """What is at the path of a FileState now."""

    inode: int
    size: int
    modified: int


class Change(Enum):
    """What a file needs before its job comes back."""

    NOTHING = "nothing"
    CUT = "cut"
    """Bytes were appended: they are kept aside, and cut off. Where there is a copy, what it holds
    comes back as well."""
    FILL = "fill"
    """It was rewritten: its content comes back from the copy."""
    CREATE = "create"
    """It is gone, or another took its place: it is made anew from the copy."""
    ASIDE = "aside"
    """It was not there: it is renamed."""
    REFUSE = "refuse"
    """It cannot be what it was: the job does not come back until somebody has looked at it."""


def needed_change(then: FileState, now: FileNow | None, *, ran_on: bool) -> tuple[Change, str]:
    """What `then` needs, and why. `ran_on`: the job ran after the checkpoint, so that changes are
    its own; otherwise they are somebody else's, and nothing of theirs is overwritten."""
    if then.absent:
        return (Change.ASIDE if ran_on and now is not None else Change.NOTHING), ""
    if then.temporary:
        return (Change.CREATE if now is None else Change.NOTHING), ""
    if then.stream and not ran_on:
        return Change.NOTHING, ""  # where the job left it, or after what others wrote since
    if now is None:
        return _made_anew(then, "is missing", ran_on=ran_on)
    # Of another inode but like this one: put back from a backup, or made anew by a resume before.
    untouched = (now.size, now.modified) == (then.size, then.modified)
    if now.inode != then.inode and not untouched:
        return _made_anew(then, "is another file now", ran_on=ran_on)
    if ran_on:
        return _gone_back(then, now, untouched=untouched)
    if untouched or (then.grows and now.size == then.size):
        return Change.NOTHING, ""
    if then.shared and now.size > then.size:
        return Change.NOTHING, ""  # a log of several, who all append to it
    return Change.REFUSE, "was changed by somebody else since the job was saved"


def _made_anew(then: FileState, what: str, *, ran_on: bool) -> tuple[Change, str]:
    return (Change.CREATE if ran_on and then.copy else Change.REFUSE), what


def _gone_back(then: FileState, now: FileNow, *, untouched: bool) -> tuple[Change, str]:
    if untouched and not then.mapped:
        return Change.NOTHING, ""
    if then.grows and now.size > then.size:
        return Change.CUT, ""
    if then.copy:
        return Change.FILL, ""
    if then.grows and now.size == then.size:
        return Change.NOTHING, ""
    if then.grows:
        return Change.REFUSE, f"is shorter than it was ({now.size} bytes instead of {then.size})"
    return Change.REFUSE, "was rewritten since, and there is no copy of it"
