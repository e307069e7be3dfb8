"""A state directory, and outgrow's command line over it in this very process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from outgrow.agent.paths import StateDir
from outgrow.cli.main import main
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import GIB, MIB
from outgrow.journal.writer import JournalWriter
from outgrow.store.posix import PosixStore


@dataclass(frozen=True)
class Ran:
    """How a command line ended."""

    status: int
    out: str
    err: str


Outgrow = Callable[..., Ran]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Outgrow:
    """Run a command line as it is."""

    def run(*argv: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["outgrow", *argv])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ran(int(end.value.code or 0), out, err)

    return run


@pytest.fixture
def outgrow(bare: Outgrow, tmp_path: Path) -> Outgrow:
    """Run a verb over the state directory of `jobs`."""

    def run(verb: str, *argv: str) -> Ran:
        return bare(verb, "--state-dir", str(tmp_path / "state"), *argv)

    return run


class Jobs:
    """Jobs as their keepers left them."""

    def __init__(self, root: Path) -> None:
        self.state = StateDir(root)
        self.state.make()
        self.store = PosixStore(self.state.store)

    def add(self, number: str, name: str = "grower", **changes: Any) -> Job:
        """One in the journal, with a first incarnation."""
        job = Job(
            id=number,
            name=name,
            owner=0,
            command=("python3", "grow.py"),
            directory="/home/ann",
            policy=LimitPolicy(256 * MIB, 2 * GIB),
            created=1000.0,
            state=State.ENDED,
            exit_status=0,
            ended=1060.0,
        )
        job = replace(job, **changes)
        incarnation = Incarnation(
            number, 1, 256 * MIB, 1000.0, first_limit=256 * MIB, peak=200 * MIB
        )
        self.state.run(number).mkdir()
        journal = JournalWriter(self.state.journal)
        journal.job(job)
        journal.incarnation(replace(incarnation, ended=job.ended, end_reason="exit 0"))
        journal.close()
        return job


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    """A state directory without any job yet."""
    return Jobs(tmp_path / "state")
