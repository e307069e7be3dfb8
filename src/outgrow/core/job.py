"""A job, its incarnations and its checkpoints, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from outgrow.core.errors import Usage
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy, SavePolicy

ID_ALPHABET = "abcdefghjkmnpqrstvwxyz23456789"
"""No letter that is taken for another, so that an id can be read aloud."""
ID_LENGTH = 8
_ID = re.compile(f"[{ID_ALPHABET}]{{{ID_LENGTH}}}")


def is_job_id(text: str) -> bool:
    """Whether `text` has the form of a job id; everything that becomes a path passes here."""
    return _ID.fullmatch(text) is not None


def check_name(name: str) -> str:
    """`name`, when it can name a job: 1 to 200 printable characters. Raises Usage otherwise.

    Names are shown and matched, and never become part of a path or a command.
    """
    if not name or len(name) > 200:
        raise Usage("a job's name has 1 to 200 characters", remedy="choose another --name")
    if not name.isprintable():
        raise Usage(
            f"the name {name!r} has characters that cannot be printed", remedy="choose another"
        )
    if name == "last":
        raise Usage("the name 'last' always means the newest job", remedy="choose another --name")
    return name


def parse_label(text: str) -> tuple[str, str]:
    """Key and value of `K=V`. Raises Usage otherwise."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z0-9._/-]{1,63}", key):
        raise Usage(f"label {text!r} is not KEY=VALUE", remedy="letters, digits and ._/- in KEY")
    if len(value) > 1000 or not (value.isprintable() or not value):
        raise Usage(f"label {key!r} has a value that cannot be shown", remedy="use printable text")
    return key, value


@dataclass(frozen=True)
class Job:
    """What the user submitted; lives through any number of incarnations."""

    id: str
    name: str
    owner: int
    """Numeric user id of whoever submitted it, and of its processes."""
    command: tuple[str, ...]
    directory: str
    policy: LimitPolicy
    created: float
    saving: SavePolicy = field(default_factory=SavePolicy)
    labels: dict[str, str] = field(default_factory=dict)
    state: State = State.STARTING
    exit_status: int | None = None
    reason: str = ""
    work_lost_seconds: float = 0.0
    ended: float | None = None


@dataclass(frozen=True)
class Incarnation:
    """One stretch of a job on one allocation."""

    job: str
    number: int
    limit: int
    started: float
    first_limit: int = 0
    peak: int = 0
    ended: float | None = None
    end_reason: str = ""
    cgroups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint of a job."""

    job: str
    number: int
    incarnation: int
    size: int
    committed: float
    deleted: float | None = None


@dataclass(frozen=True)
class SaveRecord:
    """What one save did and cost; times in seconds, sizes in bytes.

    `outcome` is `moved`, `saved`, `kept` or `thawed`; `detail` says why a save came to nothing.
    """

    job: str
    incarnation: int
    cause: str
    started: float
    outcome: str = ""
    detail: str = ""
    checkpoint: int | None = None
    freeze_seconds: float = 0.0
    dump_seconds: float = 0.0
    commit_seconds: float = 0.0
    release_seconds: float = 0.0
    wait_seconds: float = 0.0
    resume_seconds: float = 0.0
    paused_seconds: float = 0.0
    size: int = 0
    usage_before: int = 0
    released: int = 0
