"""scripts/setup_criu.py and debian_criu.py: which CRIU is taken, and what becomes of Debian's."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
WORKS: dict[str, str] = {}
NO_TCP = {"tcp": "sockets: Can't get 1:16 opt"}
BROKEN = {"processes": "vdso: Unexpected rt vDSO area bounds"}


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("setup_criu", tmp_path, monkeypatch)


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("debian_criu", tmp_path, monkeypatch)


def script(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with a private prefix of its own and no CRIU that was named."""
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module(name)
    monkeypatch.delenv("OUTGROW_CRIU", raising=False)
    monkeypatch.setattr(module, "private_prefix", lambda: tmp_path / "a b" / "outgrow-criu")
    return module


def there(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], fetched: Any
) -> list[str]:
    """Have CRIUs that lack `found`, and Debian's that lacks `fetched` or cannot be had; a list
    that gets what is fetched."""
    got: list[str] = []

    def fetch() -> str:
        got.append("criu")
        if isinstance(fetched, Exception):
            raise fetched
        return "debian"

    monkeypatch.setattr(setup, "candidates", lambda: list(found))
    monkeypatch.setattr(setup, "attempt", lambda criu: {**found, "debian": fetched}[criu])
    monkeypatch.setattr(setup, "fetch", fetch)
    return got


@pytest.mark.parametrize(
    ("found", "fetched", "lacks", "fetches"),
    [
        ({"/usr/sbin/criu": WORKS}, None, [], False),
        ({"private": BROKEN, "/usr/sbin/criu": WORKS}, None, [], False),
        ({"private": NO_TCP, "/usr/sbin/criu": BROKEN}, WORKS, [], True),
        ({}, WORKS, [], True),
        ({}, NO_TCP, ["tcp"], True),
        ({"/usr/sbin/criu": NO_TCP}, BROKEN, ["tcp"], True),
    ],
)
def test_the_best_there_is_is_taken(
    setup: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    found: dict[str, dict[str, str]],
    fetched: dict[str, str],
    lacks: list[str],
    fetches: bool,
) -> None:
    got = there(setup, monkeypatch, found, fetched)
    assert setup.settle() == lacks
    assert bool(got) is fetches


def test_without_network_the_next_best_is_taken(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    there(setup, monkeypatch, {"/usr/sbin/criu": NO_TCP}, setup.NoWay("no network"))
    assert setup.settle() == ["tcp"]


@pytest.mark.parametrize("found", [{}, {"/usr/sbin/criu": BROKEN}])
def test_where_there_is_no_way_it_says_so(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, found: dict[str, dict[str, str]]
) -> None:
    there(setup, monkeypatch, found, setup.NoWay("no network"))
    with pytest.raises(setup.NoWay, match="no network"):
        setup.settle()
    there(setup, monkeypatch, found, BROKEN)
    with pytest.raises(setup.NoWay, match="vdso"):
        setup.settle()


def test_one_that_was_named_is_never_replaced(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTGROW_CRIU", "/opt/criu")
    got = there(setup, monkeypatch, {"/opt/criu": BROKEN}, WORKS)
    with pytest.raises(setup.NoWay, match="OUTGROW_CRIU"):
        setup.settle()
    assert got == []


def test_a_private_one_goes_where_the_systems_does_better(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = setup.private_prefix()
    private.mkdir(parents=True)
    there(setup, monkeypatch, {str(private / "criu"): WORKS}, None)
    setup.settle()
    assert private.is_dir()
    there(setup, monkeypatch, {str(private / "criu"): BROKEN, "/usr/sbin/criu": WORKS}, None)
    setup.settle()
    assert not private.exists()


def test_what_is_unpacked_becomes_a_program_of_its_own(debian: ModuleType, tmp_path: Path) -> None:
    built = tmp_path / "a b" / "room" / "built"
    for name, text in {
        "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": '#!/bin/sh\necho "$CRIU_LIBS_DIR" "$@"\n',
        "usr/lib/x86_64-linux-gnu/gconv/IBM290.so": "",
        "usr/sbin/criu": "",
        "usr/share/doc/criu/copyright": "GPL",
        "usr/share/locale/pl/a.mo": "",
    }.items():
        path = built / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    debian.prune(built / "tree")
    debian.wrapper(built)
    place = debian.private_prefix()
    place.mkdir()
    (place / "criu").write_text("the old one")
    debian.replace(built, place)

    run = subprocess.run([place / "criu", "check", "a b"], capture_output=True, text=True)
    libraries = place / "tree/usr/lib/x86_64-linux-gnu"
    plugins = place / "tree/usr/lib/criu"
    criu = place / "tree/usr/sbin/criu"
    assert run.stdout == f"{plugins} --library-path {libraries} {criu} check a b\n"
    assert plugins.is_dir(), "CRIU stops at a plugin directory that is not there"
    assert (place / "tree/usr/share/doc/criu/copyright").is_file()
    assert not (place / "tree/usr/share/locale").exists()
    assert not (libraries / "gconv").exists()


def test_the_stamp_names_the_criu_that_was_tried(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    criu = tmp_path / "criu"
    monkeypatch.setattr(setup, "candidates", lambda: [str(criu)])
    keys = [setup.key()]
    for text in ("4.1.1", "4.2.1"):
        criu.write_text(text)
        keys.append(setup.key())
    assert len(set(keys)) == 3
    assert setup.key() == keys[-1]


@pytest.mark.parametrize("argv", [["false"], ["no-such-program-at-all"]])
def test_a_step_that_fails_is_no_way(debian: ModuleType, argv: list[str]) -> None:
    with pytest.raises(debian.NoWay):
        debian.step(*argv)
