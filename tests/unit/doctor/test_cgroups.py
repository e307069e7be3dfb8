"""Which cgroups are mounted, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from outgrow.agent.examination.examine import _can_hold_swap
from outgrow.agent.examination.findings import Status
from outgrow.agent.examination.limits import examine_cgroups
from outgrow.kernel.cgroups import Hierarchies

MEMORY, FREEZER = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/freezer")
UNIFIED = Path("/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("memory", "freezer", "unified", "status", "seen"),
    [
        (MEMORY, FREEZER, None, Status.OK, "version 1"),
        (MEMORY, FREEZER, UNIFIED, Status.OK, "version 1"),
        (None, None, UNIFIED, Status.OK, "version 2"),
        (None, FREEZER, UNIFIED, Status.OK, "version 2"),
        (MEMORY, None, None, Status.MISSING, "without freezer"),
        (None, FREEZER, None, Status.MISSING, "no memory controller"),
        (None, None, None, Status.MISSING, "no memory controller"),
    ],
)
def test_cgroups(
    memory: Path | None, freezer: Path | None, unified: Path | None, status: Status, seen: str
) -> None:
    finding = examine_cgroups(Hierarchies(memory, freezer, unified, {}))
    assert finding.status is status
    assert seen in finding.seen
    assert bool(finding.remedy) is (status is Status.MISSING)


def test_swap_can_be_kept_from_jobs_where_it_is_counted(tmp_path: Path) -> None:
    assert _can_hold_swap(Hierarchies(MEMORY, FREEZER, None, {}))
    assert not _can_hold_swap(Hierarchies(None, None, None, {}))
    unified = Hierarchies(None, None, tmp_path, {})
    (tmp_path / "system.slice").mkdir()
    assert not _can_hold_swap(unified)
    (tmp_path / "system.slice" / "memory.swap.max").write_text("max\n")
    assert _can_hold_swap(unified)
