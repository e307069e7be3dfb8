"""What an examination found, and what each thing is good for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """How a thing stands. DEGRADED: it is there, and does less than it might."""

    OK = "ok"
    MISSING = "missing"
    DEGRADED = "degraded"


@dataclass(frozen=True)
class Finding:
    """One thing that a host can or cannot do. `remedy` and `without` are empty where it is OK."""

    name: str
    status: Status
    seen: str
    remedy: str = ""
    without: str = ""
    """What still works."""
    tried: bool = True
    """False: it was not looked at, because something else is missing."""


_NOTHING = "programs run as if outgrow were not there: none is guarded"

WITHOUT = {
    "root": _NOTHING,
    "cgroups": _NOTHING,
    "memory-limit": _NOTHING,
    "freezer": "limits can be set, but no job can be stopped below its limit and saved",
    "guard": "jobs can be saved by hand (`outgrow save`); at its limit the kernel kills one",
    "backstop": "the guard alone: a job that outruns its band is killed by the kernel",
    "namespaces": _NOTHING,
    "criu": "no job is started, for none could be saved",
    "save-processes": "limits can be raised in place (--on-limit grow); no job can be moved",
    "save-threads": "jobs of single-threaded programs can be saved",
    "save-shared-memory": "jobs whose processes share no memory can be saved",
    "save-tcp": "jobs without a TCP connection can be saved",
    "soft-dirty": "every save writes all of a job's memory, while it stands",
    "cap-sys-resource": "everything for root's own jobs; those of other users cannot be saved, and"
    " outgrow itself is not exempt from the kernel's OOM killer",
    "cap-ipc-lock": "everything, but outgrow's own memory may be paged out when memory is short,"
    " which makes the guard late",
    "cap-sys-nice": "everything, but on a busy host the guard stops a job later (tens of"
    " milliseconds): give a larger --band",
    "swap": "everything, but a job at its limit may swap, and grow slow, before it is moved",
    "store": "no job can be saved",
}
"""Every thing that is looked at, in the order in which they are told, with what works without."""

NEEDED = (
    "root",
    "memory-limit",
    "freezer",
    "guard",
    "namespaces",
    "criu",
    "save-processes",
    "store",
)
"""What the main job (guard, save, release, resume) cannot do without."""


def ok(name: str, seen: str) -> Finding:
    """It works."""
    return Finding(name, Status.OK, seen)


def missing(name: str, seen: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(name, Status.MISSING, seen, remedy, WITHOUT[name])


def degraded(name: str, seen: str, remedy: str) -> Finding:
    """It works less well than it might."""
    return Finding(name, Status.DEGRADED, seen, remedy, WITHOUT[name])


def untried(names: Iterable[str], why: str, remedy: str) -> list[Finding]:
    """What could not be tried counts as missing."""
    return [replace(missing(name, f"not tried: {why}", remedy), tried=False) for name in names]


def main_job_runs(findings: Iterable[Finding]) -> bool:
    """Whether everything that the main job needs was found."""
    return not lacking(findings)


def lacking(findings: Iterable[Finding]) -> list[str]:
    """Names of what the main job needs and this host does not have."""
    there = {finding.name for finding in findings if finding.status is not Status.MISSING}
    return [name for name in NEEDED if name not in there]


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """As `WITHOUT` has them."""
    order = list(WITHOUT)
    return sorted(findings, key=lambda finding: order.index(finding.name))
