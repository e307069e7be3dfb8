"""`outgrow run` refuses what makes no sense, before anything is started."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path

import pytest

from outgrow.cli import run as run_verb
from outgrow.cli.run import signal_number
from outgrow.core.errors import Unsupported, Usage

from .conftest import Outgrow


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it was about to start a job")

    monkeypatch.setattr(run_verb, "open_host", fail)


REFUSED = [
    pytest.param(["--memory", "512"], "did you mean 512MiB", id="a bare size"),
    pytest.param(["--memory", "1GB"], "did you mean 1GiB", id="an ambiguous unit"),
    pytest.param(["--memory", "9" * 30 + "G"], "check the number", id="an absurd size"),
    pytest.param(["--memory", "9" * 5000 + "G"], "", id="a longer one"),
    pytest.param(["--memory", "0M"], "above zero", id="no memory at all"),
    pytest.param(["--memory", "-1G"], "is not a size", id="a negative size"),
    pytest.param(["--memory", "1KiB"], "too little", id="less than any program needs"),
    pytest.param(
        ["--memory", "2G", "--max-memory", "1G"], "is below --memory 2 GiB", id="cap below limit"
    ),
    pytest.param(["--max-memory", "1G"], "--max-memory without --memory", id="a cap alone"),
    pytest.param(["--memory", "1G", "--band", "32"], "did you mean 32MiB", id="a bare band"),
    pytest.param(["--memory", "1G", "--band", "1K"], "no time to stop", id="a tiny band"),
    pytest.param(["--next-size", "1x"], "is not a growth", id="no growth"),
    pytest.param(["--next-size", "100x"], "at most 64x", id="absurd growth"),
    pytest.param(["--on-limit", "grow,grow"], "grow twice", id="an action twice"),
    pytest.param(["--on-limit", "sleep"], "warn, grow, move, leave", id="an unknown action"),
    pytest.param(["--warn-signal", "NOSUCH"], "there is no signal 'NOSUCH'", id="no such signal"),
    pytest.param(["--warn-signal", "0"], "there is no signal", id="signal 0"),
    pytest.param(["--warn-signal", "999"], "there is no signal", id="signal 999"),
    pytest.param(["--warn-signal", "²"], "there is no signal", id="a signal in no decimal digit"),
    pytest.param(["--warn-grace", "30"], "is not a duration", id="a bare duration"),
    pytest.param(["--name", ""], "1 to 200 characters", id="an empty name"),
    pytest.param(["--name", "a\nb"], "cannot be printed", id="a name with a newline"),
    pytest.param(["--name", "last"], "always means the newest job", id="the name last"),
    pytest.param(["--label", "novalue"], "is not KEY=VALUE", id="a label without a value"),
    pytest.param(["--label", "k=\x1b[2J"], "cannot be shown", id="a label that a terminal obeys"),
]


@pytest.mark.parametrize(("options", "says"), REFUSED)
def test_what_makes_no_sense_is_refused(bare: Outgrow, options: list[str], says: str) -> None:
    ran = bare("run", *options, "--", "true")
    assert ran.status == 2
    assert says in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("user", ["no-such-user", "²", "", "root\n"])
def test_an_unknown_user_is_refused(bare: Outgrow, user: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("running as another user takes root: run the tests with sudo")
    ran = bare("run", "--user", user, "--", "true")
    assert ran.status == 2
    assert "there is no user" in ran.err


def test_an_empty_command_is_refused(bare: Outgrow) -> None:
    ran = bare("run", "--", "")
    assert ran.status == 2
    assert "the command is empty" in ran.err


def test_a_working_directory_that_is_gone_is_refused(
    bare: Outgrow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = bare("run", "--", "true")
    monkeypatch.undo()
    assert ran.status == 2
    assert "the working directory is gone" in ran.err


def test_a_command_keeps_its_own_options(bare: Outgrow) -> None:
    """Everything after -- is the job's, whatever it looks like."""
    with pytest.raises(AssertionError, match="about to start"):
        bare("run", "--", "prog", "--memory", "512", "--no-such-option", "-h")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("TERM", signal.SIGTERM),
        ("SIGTERM", signal.SIGTERM),
        ("usr1", signal.SIGUSR1),
        ("sigusr1", signal.SIGUSR1),
        ("15", signal.SIGTERM),
        ("RTMIN", signal.SIGRTMIN),
    ],
)
def test_a_signal_by_name_or_number(name: str, number: int) -> None:
    assert signal_number(name) == number


@pytest.mark.parametrize("name", ["", "SIG", "SIGSIGTERM", "-15", "15.0", "0", "65", "TERM\n", "٣"])
def test_what_is_no_signal_is_refused(name: str) -> None:
    with pytest.raises(Usage, match="there is no signal"):
        signal_number(name)


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("python3", "python3"),
        ("/usr/bin/python3", "python3"),
        ("./a b", "a b"),
        ("/", "job"),
        ("..", ".."),
        ("last", "job"),
        ("/opt/last", "job"),
        ("a\nb", "a?b"),
        ("\udcff", "?"),
        ("x" * 300, "x" * 200),
    ],
)
def test_a_job_is_called_after_its_program(program: str, name: str) -> None:
    assert run_verb._name_of(program) == name


def test_a_job_is_its_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    uid, gid, groups = run_verb._credentials(None)
    assert (uid, gid) == (os.getuid(), os.getgid())
    assert set(groups) == set(os.getgroups())
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    for user in ("nobody", str(nobody.pw_uid)):
        assert run_verb._credentials(user)[:2] == (nobody.pw_uid, nobody.pw_gid)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(Unsupported, match="without root"):
        run_verb._credentials("nobody")
