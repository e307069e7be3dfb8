"""Where things lie, and whose they have to be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from outgrow.agent.host import state_dir
from outgrow.agent.paths import DEFAULT, VARIABLE, StateDir
from outgrow.core.errors import NotFound, OutgrowError, Usage

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="giving a directory to another user takes root: run with sudo"
)


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "some/where")
    old = os.umask(0o000)
    try:
        state.make()
    finally:
        os.umask(old)
    for folder in (state.root, state.store, state.root / "run"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    state.make()


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777, 0o1777])
def test_one_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(Usage, match="is not yours alone") as error:
        StateDir(tmp_path).make()
    assert f"chown it to uid {os.geteuid()} and chmod it to 0700" in error.value.remedy


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_one_that_others_can_only_read_is_taken(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    StateDir(tmp_path).make()


@needs_root
def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(Usage, match="is not yours alone"):
        StateDir(tmp_path).make()


@needs_root
def test_nothing_is_written_into_what_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(Usage):
        StateDir(tmp_path).make()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", [".", "deeper"])
def test_one_that_cannot_be_made_says_why_and_what_to_do(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutgrowError, match="cannot be made or written") as error:
        StateDir(tmp_path / "file" / below).make()
    assert "--state-dir" in error.value.remedy


@pytest.mark.parametrize("job", ["", "..", "../../etc", "abcdefgh/..", "abcdefg\n", "abcd\x00fgh"])
def test_what_is_no_job_id_never_becomes_a_path(tmp_path: Path, job: str) -> None:
    with pytest.raises(NotFound, match="is no job id"):
        StateDir(tmp_path).run(job)


def test_each_job_has_a_directory_of_its_own(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert state.run("abcdefgh") == tmp_path / "run/abcdefgh"
    assert state.journal.parent == state.store.parent == tmp_path


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        pytest.param("/a", "/b", Path("/a"), id="the option first"),
        pytest.param(None, "/b", Path("/b"), id="then the environment"),
        pytest.param(None, None, DEFAULT, id="then the default"),
        pytest.param("", "", DEFAULT, id="empty is none"),
        pytest.param("a b", None, Path.cwd() / "a b", id="below the working directory"),
    ],
)
def test_which_directory_it_is(
    monkeypatch: pytest.MonkeyPatch, option: str | None, variable: str | None, expected: Path
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    assert state_dir(option).root == expected
