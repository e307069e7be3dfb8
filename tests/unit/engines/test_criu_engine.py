"""CRIU as an engine, with programs that stand in for it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outgrow.core.errors import CannotSave, Transient, Unsupported
from outgrow.engines.criu import find
from outgrow.engines.criu.engine import CriuEngine
from outgrow.ports import DumpRequest, StreamKey


def program(path: Path, text: str = "echo Version: 4.2.1") -> str:
    """An executable that says `text`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def no_criu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host on which no CRIU can be found."""
    monkeypatch.delenv(find.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    return tmp_path


def test_the_one_that_the_environment_names_is_the_only_candidate(
    no_criu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(find.private_prefix() / "criu")
    named = program(no_criu / "own/criu")
    monkeypatch.setenv(find.VARIABLE, named)
    assert find.candidates() == [named]
    assert find.find_criu() == named


def test_the_private_one_comes_before_the_systems(
    no_criu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/sbin/criu")
    assert find.candidates() == ["/usr/sbin/criu"]
    private = program(find.private_prefix() / "criu")
    assert find.candidates() == [private, "/usr/sbin/criu"]


def test_a_system_criu_is_found_where_root_has_it(
    no_criu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.delenv(find.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "prefix", str(no_criu))
    monkeypatch.setenv("PATH", str(no_criu / "bin"))
    system = program(no_criu / "bin/criu")
    assert find.candidates()[0] == system


@pytest.mark.parametrize("named", ["absent", "not-executable"])
def test_one_that_cannot_be_run_is_none(
    no_criu: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (no_criu / "not-executable").write_text("")
    monkeypatch.setenv(find.VARIABLE, str(no_criu / named))
    with pytest.raises(Unsupported, match="there is no CRIU") as error:
        find.find_criu()
    assert find.VARIABLE in error.value.remedy


def test_no_criu_at_all_is_unsupported_with_a_remedy(no_criu: Path) -> None:
    with pytest.raises(Unsupported, match="saving jobs") as error:
        CriuEngine(frozenset)
    assert "make setup" in error.value.remedy


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("echo Version: 4.2.1", "4.2.1", id="a release"),
        pytest.param("echo Version: 4.2; echo GitID: v4.2-3-gabc", "4.2", id="a build from git"),
        pytest.param("echo Version:3.17.1", "3.17.1", id="no space"),
        pytest.param("echo criu", "", id="something else"),
        pytest.param("exit 1", "", id="a failure"),
    ],
)
def test_its_version(tmp_path: Path, text: str, version: str) -> None:
    assert find.version_of(program(tmp_path / "criu", text)) == version


def test_a_program_that_is_not_there_has_no_version(tmp_path: Path) -> None:
    assert find.version_of(str(tmp_path / "criu")) == ""


class FakeRunner:
    """A Runner that notes the command and ends it with `status`, leaving `log` behind."""

    def __init__(self, status: int, log: str | None = None) -> None:
        self.status, self.log = status, log
        self.argv: list[str] = []
        self.timeout = 0.0

    async def run(self, argv: Sequence[str], timeout: float) -> int:
        self.argv, self.timeout = list(argv), timeout
        if self.log is not None:
            images = Path(self.argv[self.argv.index("--images-dir") + 1])
            (images / "dump.log").write_text(self.log)
        return self.status


def finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


@pytest.fixture
def criu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = program(tmp_path / "criu")
    monkeypatch.setenv(find.VARIABLE, path)
    return path


def request(images: Path) -> DumpRequest:
    return DumpRequest(
        root_pid=7,
        images=images,
        freezer_path="/freezer",
        streams=[StreamKey(1, "pipe:[501]")],
        timeout=12.5,
    )


def test_a_dump_runs_criu_inside_the_jobs_namespaces(criu: str, tmp_path: Path) -> None:
    engine = CriuEngine(frozenset)
    runner = FakeRunner(0)
    finish(engine.dump(request(tmp_path), runner))
    assert runner.argv[:2] == [criu, "dump"]
    assert runner.argv[runner.argv.index("--tree") + 1] == "7"
    assert runner.argv[-4:] == ["--network-lock", "skip", "--external", "pipe:[501]"]
    assert runner.timeout == 12.5


@pytest.mark.parametrize(("iptables", "lock"), [(True, "iptables"), (False, "nftables")])
def test_a_connection_is_locked_by_what_the_host_has(
    criu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iptables: bool, lock: str
) -> None:
    engine = CriuEngine(frozenset)
    monkeypatch.setattr(shutil, "which", lambda _, path: path if iptables else None)
    runner = FakeRunner(0)
    finish(engine.dump(replace(request(tmp_path), connected=True), runner))
    assert runner.argv[runner.argv.index("--network-lock") + 1] == lock


@pytest.mark.parametrize(
    ("status", "log", "says"),
    [
        pytest.param(
            1,
            "(00.1) Error (criu/x.c:1): No space left on device\n",
            "CRIU could not write the job down: the store is full (No space left on device)",
            id="an error in the log",
        ),
        pytest.param(1, "", "its log names no error", id="an empty log"),
        pytest.param(1, None, "it left no log", id="no log"),
        pytest.param(137, None, "it left no log", id="killed"),
        pytest.param(127, None, "cannot be run", id="no such program"),
    ],
)
def test_a_dump_that_fails_says_why_and_that_the_job_runs_on(
    criu: str, tmp_path: Path, status: int, log: str | None, says: str
) -> None:
    engine = CriuEngine(frozenset)
    with pytest.raises(CannotSave) as error:
        engine.dump(request(tmp_path), FakeRunner(status, log)).send(None)
    assert says in error.value.message
    assert error.value.preserved == "the job runs on"


def test_a_time_out_is_passed_on(criu: str, tmp_path: Path) -> None:
    class Slow(FakeRunner):
        async def run(self, argv: Sequence[str], timeout: float) -> int:
            raise Transient("it took too long")

    with pytest.raises(Transient, match="too long"):
        CriuEngine(frozenset).dump(request(tmp_path), Slow(0)).send(None)


def test_a_failed_restore_is_explained_by_its_log(criu: str, tmp_path: Path) -> None:
    engine = CriuEngine(frozenset)
    (tmp_path / "restore.log").write_text("(00.1) Error (criu/x.c:1): Can't fork: File exists\n")
    assert engine.restore_error(tmp_path).startswith("a PID that the job had is in use")
    assert engine.restore_argv(tmp_path, {"pipe:[5]": 11})[:2] == [criu, "restore"]


def test_a_restore_needs_room_for_all_that_it_reads_but_the_pages(
    criu: str, tmp_path: Path
) -> None:
    for name, size in (
        ("pages-1.img", 500),
        ("sk-queues.img", 40),
        ("core-1.img", 2),
        ("x.log", 7),
    ):
        (tmp_path / name).write_bytes(bytes(size))
    engine = CriuEngine(frozenset)
    assert engine.restore_room(tmp_path) == 42


def test_the_fingerprint_is_that_of_this_node(criu: str) -> None:
    fingerprint = CriuEngine(lambda: frozenset({"avx2"})).fingerprint()
    assert fingerprint.engine == "criu 4.2.1"
    assert fingerprint.kernel == os.uname().release
    assert fingerprint.architecture == os.uname().machine
    assert fingerprint.cpu_features == {"avx2"}
