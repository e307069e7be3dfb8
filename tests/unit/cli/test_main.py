"""Every verb is found, and every error ends in one clear message and its own status."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import outgrow.agent.session  # noqa: F401 - its error is one of those below
from outgrow.cli import ps
from outgrow.cli.main import VERBS
from outgrow.core import errors
from outgrow.core.errors import OutgrowError

from .conftest import Outgrow


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_help(bare: Outgrow, verb: str, flag: str) -> None:
    ran = bare(verb, flag)
    assert ran.status == 0
    assert ran.out.startswith(f"Usage: outgrow {verb} ")
    assert len(ran.out.splitlines()) > 5
    assert ran.err == ""


def test_the_help_names_every_verb_and_status(bare: Outgrow) -> None:
    ran = bare("--help")
    assert ran.status == 0
    for verb, meaning in VERBS.items():
        assert f"  {verb} " in ran.out
        assert meaning.split()[0] in ran.out
    for kind in (errors.Usage, errors.NotFound, errors.Busy, errors.Damaged, errors.CannotSave):
        assert f"{kind.exit_status} " in ran.out


def test_the_version_is_told(bare: Outgrow) -> None:
    assert bare("--version").out.startswith("outgrow, version 0.")


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["rum"], id="no such verb"),
        pytest.param(["--no-such-option"], id="no such option"),
        pytest.param(["show"], id="no job"),
        pytest.param(["show", "one", "two"], id="two jobs"),
        pytest.param(["run"], id="no command"),
        pytest.param(["run", "--"], id="no command after --"),
        pytest.param(["run", "--memory"], id="no value"),
        pytest.param(["ps", "--jason"], id="no such option of a verb"),
        pytest.param(["move", "last"], id="no size"),
        pytest.param(["run", "--messages", "loud", "--", "true"], id="no such choice"),
        pytest.param(["\udcff"], id="an undecodable verb"),
    ],
)
def test_what_click_refuses_ends_with_status_2(bare: Outgrow, argv: list[str]) -> None:
    ran = bare(*argv)
    assert ran.status == 2
    assert ran.out == ""
    assert "Error" in ran.err


def all_errors(kind: type[OutgrowError] = OutgrowError) -> Iterator[type[OutgrowError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from all_errors(below)


def an_error(kind: type[OutgrowError]) -> OutgrowError:
    error = kind.__new__(kind)
    OutgrowError.__init__(error, "what happened", preserved="it is safe", remedy="do this")
    return error


# Not NotFound, which ps takes for an empty list: test_verbs.py has it for the other verbs.
RAISED = [kind for kind in all_errors() if kind is not errors.NotFound]


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_every_error_ends_with_its_status_and_says_all_it_knows(
    bare: Outgrow, monkeypatch: pytest.MonkeyPatch, kind: type[OutgrowError]
) -> None:
    def fail(_: object) -> None:
        raise an_error(kind)

    monkeypatch.setattr(ps, "Jobs", fail)
    ran = bare("ps")
    assert ran.status == an_error(kind).exit_status
    assert ran.out == ""
    assert ran.err == "outgrow: what happened\n  it is safe\n  do this\n"


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        pytest.param(KeyboardInterrupt(), 130, "", id="interrupted"),
        pytest.param(click.exceptions.Abort(), 130, "", id="aborted"),
        pytest.param(click.UsageError("no"), 2, "Error: no", id="usage"),
        pytest.param(PermissionError(13, "Permission denied", "/x"), 1, "/x", id="the system"),
        pytest.param(sqlite3.OperationalError("database is locked"), 1, "locked", id="the journal"),
        pytest.param(OutgrowError("what happened"), 1, "outgrow: what happened\n", id="no more"),
    ],
)
def test_whatever_else_happens_is_no_traceback(
    bare: Outgrow, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, says: str
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(ps, "Jobs", fail)
    ran = bare("ps")
    assert ran.status == status
    assert says in ran.err


# -- as a process

OUTGROW = [sys.executable, "-m", "outgrow"]


def test_a_program_that_stops_reading_is_no_error(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*OUTGROW, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_obstacle(tmp_path: Path, closed: str) -> None:
    ran = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closed}', "sh", *OUTGROW, "ps", "--state-dir", str(tmp_path)],
        capture_output=True,
        timeout=20,
    )
    assert ran.returncode == 0, ran.stderr
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path, closed: list[int]) -> None:
    """What is opened next would be handed to a job as its output."""
    script = (
        "import os, sys\n"
        "from outgrow.cli import main\n"
        "main._fill_standard_streams()\n"
        "print('heard by nobody')\n"
        "found = [os.readlink(f'/proc/self/fd/{stream}') for stream in range(3)]\n"
        "open(sys.argv[1], 'w').write(' '.join(found))\n"
    )
    redirections = " ".join(f"{stream}>&-" for stream in closed)
    command = ["/bin/sh", "-c", f'"$@" {redirections}', "sh", sys.executable, "-c", script]
    subprocess.run(
        [*command, str(tmp_path / "found")],
        stdin=subprocess.PIPE,
        capture_output=True,
        timeout=20,
        check=True,
    )
    found = (tmp_path / "found").read_text().split()
    assert [name == "/dev/null" for name in found] == [stream in closed for stream in range(3)]


def test_a_bad_size_is_no_traceback_and_starts_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*OUTGROW, "run", "--memory", "512", "--", "touch", str(tmp_path / "ran")],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert ran.returncode == 2
    assert "did you mean 512MiB" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "ran").exists()


def test_running_a_job_imports_no_more_than_it_needs() -> None:
    script = (
        "import sys, outgrow.cli.run\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20
    )
    loaded = set(ran.stdout.split())
    assert not loaded & {"rich", "asyncio", "numpy", "polars", "pydantic", "pygments"}
