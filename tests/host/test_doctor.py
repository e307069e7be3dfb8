"""`outgrow doctor` on this very host: what it finds, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outgrow.agent.examination.findings import NEEDED, WITHOUT
from outgrow.engines.criu.find import find_criu
from outgrow.kernel.cgroups import find_hierarchies
from tests.host.kit import Outgrow

MODULES = "outgrow.agent.examination."
INIT = "outgrow-init"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for its temporary files, empty in the end; nor may a cgroup or process be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    family_was_there = [path.exists() for path in find_hierarchies().family()]
    yield folder
    assert list(folder.iterdir()) == []
    assert trials() == {}
    assert [path.exists() for path in find_hierarchies().family()] >= family_was_there
    assert running("filler") == running("subject") == []


def trials() -> dict[str, list[int]]:
    """The cgroups of examinations, with the processes in them."""
    found: dict[str, list[int]] = {}
    for family in find_hierarchies().family():
        for path in family.glob("trying-*"):
            try:
                processes = [int(word) for word in (path / "cgroup.procs").read_text().split()]
            except OSError:  # it is just being removed
                continue
            found.setdefault(path.name, []).extend(processes)
    return found


def running(module: str) -> list[int]:
    """Processes that run a module of the examination, the dead apart."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MODULES}{module}" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def checks(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in report["checks"]}


def fake_criu(tmp_path: Path, lines: str) -> str:
    """The CRIU of this host behind a script, which may spoil what it is told."""
    script = tmp_path / "criu"
    script.write_text(f'#!/bin/bash\n{lines}\nexec {find_criu()} "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_this_host_can_do_the_main_job(outgrow: Outgrow) -> None:
    done = outgrow("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert report["schema"] == 1
    assert report["main_job"] is True
    assert [check["name"] for check in report["checks"]] == list(WITHOUT)
    for check in report["checks"]:
        assert set(check) == {"name", "status", "seen", "remedy", "without"}
        assert check["seen"]
        well = check["status"] == "ok"
        assert bool(check["remedy"]) is bool(check["without"]) is not well
    status = checks(report)
    assert {status[name] for name in NEEDED} <= {"ok", "degraded"}
    for name in ("save-processes", "save-threads", "save-shared-memory", "save-tcp", "backstop"):
        assert status[name] == "ok", done.stdout
    assert not outgrow.state.exists(), "a doctor makes no state directory"


def test_for_people(outgrow: Outgrow) -> None:
    done = outgrow("doctor", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.startswith("+ root")
    assert done.stdout.endswith("\nA job can be guarded, saved and resumed here.\n")
    assert done.stderr == ""


@pytest.mark.parametrize("criu", ["/bin/false", "/nowhere/criu", "/etc/passwd"])
def test_without_a_criu(outgrow: Outgrow, criu: str) -> None:
    done = outgrow("doctor", "--json", env={"OUTGROW_CRIU": criu})
    report = json.loads(done.stdout)
    assert done.returncode == 14
    assert report["main_job"] is False
    status = checks(report)
    assert {status[name] for name in ("freezer", "guard", "backstop", "namespaces")} == {"ok"}
    for check in report["checks"]:
        if check["name"] == "criu" or check["name"].startswith("save-"):
            assert check["status"] == "missing"
            assert "docs/how-to/criu.md" in check["remedy"]
            assert check["without"]


def test_a_criu_that_fails_at_connections_alone(outgrow: Outgrow, tmp_path: Path) -> None:
    criu = fake_criu(tmp_path, 'set -- "${@/--tcp-established/--shell-job}"')
    done = outgrow("doctor", "--json", env={"OUTGROW_CRIU": criu})
    report = json.loads(done.stdout)
    saves = {n: s for n, s in checks(report).items() if n.startswith("save-")}
    assert saves == {
        "save-processes": "ok",
        "save-threads": "ok",
        "save-shared-memory": "ok",
        "save-tcp": "missing",
    }, done.stdout
    (tcp,) = [check for check in report["checks"] if check["name"] == "save-tcp"]
    assert "tcp-established" in tcp["seen"], "in CRIU's own words"
    assert done.returncode == 0, "the main job runs without"


@pytest.mark.parametrize(
    ("spoilt", "seen"),
    [
        ('[ "$1" != dump ] || exit 1', "could not write the job down"),
        ('[ "$1" != restore ] || exit 1', "could not bring it back"),
        ('[ "$1" != restore ] || kill -9 $$', "could not bring it back"),
    ],
)
def test_a_criu_that_fails_at_everything(
    outgrow: Outgrow, tmp_path: Path, spoilt: str, seen: str
) -> None:
    done = outgrow("doctor", "--json", env={"OUTGROW_CRIU": fake_criu(tmp_path, spoilt)})
    report = json.loads(done.stdout)
    assert done.returncode == 14
    for check in report["checks"]:
        if check["name"].startswith("save-"):
            assert check["status"] == "missing"
            assert seen in check["seen"]


def test_as_an_ordinary_user(outgrow: Outgrow) -> None:
    # All is imported first: the checkout may be where nobody else can read.
    program = (
        "import encodings.ascii, os, sys, outgrow.cli.doctor, outgrow.cli.main as cli\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.argv = ['outgrow', 'doctor', '--json']\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "OUTGROW_STATE_DIR": str(outgrow.state)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 14, done.stderr
    assert done.stderr == ""
    status = checks(json.loads(done.stdout))
    assert status["root"] == status["store"] == "missing"
    assert status["cgroups"] == "ok", "which needs no root"


@pytest.mark.parametrize("state", ["/proc/outgrow", "/dev/null", "/etc/passwd/further"])
def test_a_store_that_cannot_be(outgrow: Outgrow, state: str) -> None:
    done = outgrow("doctor", "--json", "--state-dir", state)
    assert done.returncode == 14
    assert checks(json.loads(done.stdout))["store"] == "missing"
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("at", ["filler", "subject", "restore"])
def test_interrupted_it_leaves_nothing(outgrow: Outgrow, number: signal.Signals, at: str) -> None:
    process = outgrow.start("doctor")
    until_it_runs(process, at)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == (130 if number is signal.SIGINT else 128 + number)
    assert b"Traceback" not in err


@pytest.mark.parametrize("at", ["filler", "subject", "restore"])
def test_killed_it_leaves_nothing_that_the_next_one_does_not_find(
    outgrow: Outgrow, at: str, temporary: Path
) -> None:
    process = outgrow.start("doctor")
    until_it_runs(process, at)
    process.kill()
    process.communicate(timeout=30)
    end = time.monotonic() + 10
    while any(trials().values()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(trials().values()), "its processes die with it"
    assert outgrow("doctor").returncode == 0
    for folder in temporary.glob("outgrow-trial-*"):  # the system's to clear
        subprocess.run(["rm", "-r", str(folder)], check=True)


def until_it_runs(process: subprocess.Popen[bytes], what: str) -> None:
    """Until a process with this word in its command line is in the doctor's cgroup."""
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        for pid in trials().get(f"trying-{process.pid}", []):
            try:
                if what in Path(f"/proc/{pid}/cmdline").read_text():
                    return
            except OSError:
                continue
    pytest.fail(f"no {what} was seen before the doctor ended")
