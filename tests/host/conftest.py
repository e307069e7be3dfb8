"""The host tier: this machine, its kernel, a real CRIU, real kills."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outgrow.core.errors import Unsupported
from outgrow.engines.criu.find import find_criu
from outgrow.kernel.cgroups import find_hierarchies
from tests.host.kit import Outgrow


def _why_not() -> str:
    if os.geteuid() != 0:
        return "the host tier starts and restores processes: run it as root (sudo make test)"
    if find_hierarchies().version is None:
        return "no memory cgroup is mounted here: mount one (docs/how-to/criu.md)"
    try:
        find_criu()
    except Unsupported as error:
        return str(error)
    return ""


@pytest.fixture(scope="session", autouse=True)
def _host() -> None:
    reason = _why_not()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def outgrow(tmp_path: Path) -> Iterator[Outgrow]:
    """outgrow over a fresh state directory; nothing of its jobs may be left at the end."""
    state, directory = tmp_path / "state", tmp_path / "work"
    directory.mkdir()
    outgrow = Outgrow(state, directory)
    yield outgrow
    left = []
    for job in outgrow.jobs().values() if state.exists() else ():
        if job["state"] == "unguarded" or job["state"] in ("running", "frozen", "saving"):
            outgrow("kill", job["id"])
        outgrow("forget", job["id"], "--force")
        left += [str(path) for path in outgrow.cgroups(job["id"])]
    subprocess.run(["rm", "-rf", str(state)], check=True)
    assert not left, f"cgroups were left behind: {left}"
