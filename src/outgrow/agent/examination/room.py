"""Where memory could go: swap, and the store."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from outgrow.agent.examination.findings import Finding, degraded, missing, ok
from outgrow.core.units import format_size

_ANOTHER = "name another directory with --state-dir or OUTGROW_STATE_DIR"
_OURS = f"run as root, or {_ANOTHER}"


def examine_swap(total: int, held: bool) -> Finding:
    """`total` bytes of swap; `held`: jobs' cgroups can be kept from it."""
    if total == 0:
        return ok("swap", "none")
    if held:
        return ok("swap", f"{format_size(total)}, which jobs under guard do not use")
    return degraded(
        "swap",
        f"{format_size(total)}, and the kernel does not count it per cgroup",
        "boot with swapaccount=1, or turn swap off (swapoff -a)",
    )


def examine_store(root: Path, memory: int) -> Finding:
    """Whether the state directory `root` can be made and written, and holds a job of `memory`
    bytes, the whole host's. Leaves nothing behind."""
    place = root
    while not place.exists():
        place = place.parent
    reason = _why_not_ours(root) if place == root else ""
    if not reason:
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"outgrow")
                file.flush()
        except OSError as error:
            reason = f"{place}: {error.strerror}"
    if reason:
        return missing("store", reason, _OURS)
    status = os.statvfs(place)
    room = status.f_bavail * status.f_frsize
    seen = f"{format_size(room)} for checkpoints in {root}"
    if room < memory:
        seen += f", less than this host's memory ({format_size(memory)}): no larger job is saved"
        return degraded("store", seen, f"free some room, or {_ANOTHER}")
    return ok("store", seen)


def _why_not_ours(root: Path) -> str:
    """As StateDir.make() decides: what is restored from there runs with root's rights."""
    try:
        status = root.stat()
    except OSError as error:
        return f"{root}: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{root} is not a directory"
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{root} does not belong to uid {os.geteuid()} alone"
    return ""
