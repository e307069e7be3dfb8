"""This host alone: memory is given while there is some that nobody was promised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import MIB


def reserve_of(total: int) -> int:
    """Bytes of a host of `total` bytes that are never given to jobs: 5 %, at least 128 MiB and at
    most 2 GiB, for the kernel, the page cache and everybody else."""
    return min(max(total // 20, 128 * MIB), 2048 * MIB)


class LocalScheduler:
    """Room on this host.

    What other jobs were promised and have not used yet (limit - usage of each cgroup beside the
    job's own) counts as taken: a job is not grown, or brought back, into memory that another was
    promised. A job that starts is given what its user asks for, as without outgrow.
    `memory` gives MemTotal and MemAvailable in bytes; `promises` a job's limit and usage by its
    cgroup directory.
    """

    def __init__(
        self,
        memory: Callable[[], tuple[int, int]],
        promises: Callable[[], dict[str, tuple[int, int]]],
    ) -> None:
        self._memory = memory
        self._promises = promises

    def room(self, apart_from: Sequence[str] = ()) -> int:
        total, available = self._memory()
        promised = 0
        for path, (limit, usage) in self._promises().items():
            if path not in apart_from:
                promised += max(0, min(limit, total) - usage)
        return max(0, available - reserve_of(total) - promised)

    def cap(self) -> int:
        total, _ = self._memory()
        return total - reserve_of(total)


def promises_below(family: Path) -> dict[str, tuple[int, int]]:
    """Limit and usage, in bytes, of each job's cgroup below `family` (v1 or v2)."""
    found = {}
    try:
        folders = [entry for entry in family.iterdir() if entry.is_dir()]
    except OSError:
        return {}
    for folder in folders:
        for limit_file, usage_file in (
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ("memory.max", "memory.current"),
        ):
            try:
                limit = (folder / limit_file).read_text(encoding="ascii").strip()
                usage = int((folder / usage_file).read_text(encoding="ascii"))
            except OSError:
                continue
            if limit.isdigit() and int(limit) < NO_LIMIT:  # no limit, "max": nothing promised
                found[str(folder)] = (int(limit), usage)
    return found
