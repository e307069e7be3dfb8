"""Namespaces, and what a CRIU can do here."""

from __future__ import annotations

import os
import subprocess

from outgrow.agent.examination.findings import Finding, missing, ok, untried
from outgrow.agent.examination.trial import KINDS, attempt, survivors
from outgrow.core.errors import OutgrowError, Unsupported
from outgrow.engines.criu import find
from outgrow.engines.criu.engine import CriuEngine
from outgrow.kernel import proc
from outgrow.kernel.cgroups import Hierarchies

SAVES = tuple(f"save-{kind}" for kind in KINDS)
_PRIVILEGED = (
    "run with CAP_SYS_ADMIN on a kernel with PID and mount namespaces: on the host itself, or in a"
    " privileged container"
)
_REMEDIES = {
    "save-tcp": "install iptables (CRIU stops connections with it while it saves them) and a newer"
    " CRIU: `make setup`, or docs/how-to/criu.md",
}
_NEWER = "get a CRIU that works with this kernel: `make setup`, or docs/how-to/criu.md"
_CHECK_TIMEOUT = 10.0
_NO_LOG = "it left no log"
"""As outgrow.engines.criu.log says it."""


def examine_namespaces(hierarchies: Hierarchies) -> Finding:
    """Run a process in PID and mount namespaces of its own, as every job does. Needs root."""
    try:
        reason = attempt(None, hierarchies, ("processes",))["processes"]
    except Unsupported as error:
        return missing("namespaces", error.feature, _PRIVILEGED)
    if reason:
        return missing("namespaces", reason, _PRIVILEGED)
    return ok("namespaces", "a process ran in a PID and a mount namespace of its own")


def examine_criu() -> Finding:
    """Which CRIU is taken, and whether it runs at all."""
    try:
        criu = find.find_criu()
    except OutgrowError:
        named = os.environ.get(find.VARIABLE)
        seen = f"{named}, which {find.VARIABLE} names, is no program" if named else "there is none"
        return missing("criu", seen, find.REMEDY)
    version = find.version_of(criu)
    if not version:
        return missing("criu", f"{criu} is no CRIU: it does not say its version", find.REMEDY)
    return ok("criu", f"{criu}, version {version}")


def examine_saving(hierarchies: Hierarchies) -> list[Finding]:
    """Save and resume a process with each kind of thing inside. Needs root and a CRIU."""
    try:
        survived = what_survives(hierarchies)
    except Unsupported as error:
        return untried(SAVES, error.feature, _PRIVILEGED)
    return [_saved(f"save-{kind}", survived[kind]) for kind in KINDS]


def what_survives(hierarchies: Hierarchies) -> dict[str, str]:
    """For each of `KINDS` an empty text, or why it does not survive a save and resume with the
    CRIU in use. Raises Unsupported where that cannot be tried. Needs root."""
    engine = CriuEngine(proc.cpu_features)
    survived = survivors(engine, hierarchies)
    if _NO_LOG in survived["processes"]:  # it stopped before it had one
        complaint = _complaint(engine.criu)
        survived = {kind: f"{reason} ({complaint})" for kind, reason in survived.items()}
    return survived


def examine_soft_dirty() -> Finding:
    """Whether the kernel tells which pages were written since a save. Needs root and a CRIU."""
    argv = [find.find_criu(), "check", "--feature", "mem_dirty_track"]
    try:
        run = subprocess.run(argv, capture_output=True, timeout=_CHECK_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return missing("soft-dirty", f"not tried: {error}", find.REMEDY)
    if run.returncode == 0:
        return ok("soft-dirty", "the kernel tracks written pages")
    return missing(
        "soft-dirty",
        "the kernel does not track written pages",
        "a kernel built with CONFIG_MEM_SOFT_DIRTY, as Debian's are",
    )


def _complaint(criu: str) -> str:
    """What a CRIU says of this kernel by itself."""
    try:
        run = subprocess.run(
            [criu, "check"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_CHECK_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{criu}: {error}"
    said = run.stdout.decode(errors="replace").splitlines()
    errors = [line.partition("): ")[2] for line in said if line.startswith("Error")]
    return errors[-1] if errors else f"`criu check` ends with {run.returncode}"


def _saved(name: str, reason: str) -> Finding:
    if reason:
        return missing(name, reason, _REMEDIES.get(name, _NEWER))
    return ok(name, "survived a save and a resume")
