"""All of the examination, in an order in which nothing is tried that cannot work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from outgrow.agent.examination import limits, privileges, room, saving
from outgrow.agent.examination.findings import Finding, Status, in_order, missing, untried
from outgrow.agent.paths import StateDir
from outgrow.core.errors import OutgrowError
from outgrow.kernel import proc
from outgrow.kernel.cgroups import Hierarchies, find_hierarchies

_LIMITS = ("memory-limit", "freezer", "guard", "backstop")
_REPORT = "please report this, with the output of `outgrow doctor --json` and `uname -a`"


def examine(state: StateDir) -> list[Finding]:
    """Try everything. What is made for that is removed again, whatever happens. Never raises for
    what a host cannot do."""
    hierarchies = find_hierarchies()
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    found = privileges.examine_privileges(os.geteuid(), status)
    found.append(limits.examine_cgroups(hierarchies))
    found.append(saving.examine_criu())
    memory, _ = proc.memory_total_and_available()
    found.append(_one("store", lambda: room.examine_store(state.root, memory)))
    found.append(room.examine_swap(proc.swap_total(), _can_hold_swap(hierarchies)))
    found += _by_trying(hierarchies, {item.name: item for item in found})
    return in_order(found)


def _by_trying(hierarchies: Hierarchies, known: dict[str, Finding]) -> list[Finding]:
    tried = (*_LIMITS, "namespaces", *saving.SAVES, "soft-dirty")
    if known["root"].status is Status.MISSING:
        return untried(tried, privileges.NEEDS_ROOT, privileges.AS_ROOT)
    if known["cgroups"].status is Status.MISSING:
        return untried(tried, "there are no cgroups for it", known["cgroups"].remedy)
    found = _all(_LIMITS, lambda: limits.examine_limits(hierarchies))
    namespaces = _one("namespaces", lambda: saving.examine_namespaces(hierarchies))
    found.append(namespaces)
    if known["criu"].status is Status.MISSING:
        remedy = known["criu"].remedy
        return [*found, *untried((*saving.SAVES, "soft-dirty"), "there is no CRIU", remedy)]
    found.append(_one("soft-dirty", saving.examine_soft_dirty))
    if namespaces.status is Status.MISSING:
        return [*found, *untried(saving.SAVES, "there are no namespaces", namespaces.remedy)]
    return found + _all(saving.SAVES, lambda: saving.examine_saving(hierarchies))


def _can_hold_swap(hierarchies: Hierarchies) -> bool:
    """v1's memory.swappiness is always there; v2's memory.swap.max only where swap is counted."""
    if hierarchies.version != 2 or hierarchies.unified is None:
        return hierarchies.version == 1
    return any(hierarchies.unified.glob("*/memory.swap.max"))


def _one(name: str, examination: Callable[[], Finding]) -> Finding:
    return _all((name,), lambda: [examination()])[0]


def _all(names: Sequence[str], examination: Callable[[], list[Finding]]) -> list[Finding]:
    """The examination's findings; one that breaks is itself a finding about all of `names`."""
    try:
        return examination()
    except OutgrowError as error:
        return [missing(name, error.message, error.remedy or _REPORT) for name in names]
    except Exception as error:  # a doctor that dies of what it finds helps nobody
        seen = f"{type(error).__name__}: {error}"
        return [missing(name, seen, _REPORT) for name in names]
