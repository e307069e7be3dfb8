"""outgrow's own helpers are run as they are, whatever the user has put in their way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from outgrow.launcher.program import own_program


def test_no_module_of_the_users_takes_the_place_of_ours(tmp_path: Path) -> None:
    for name in ("outgrow", "runpy", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not ours')")
    ran = subprocess.run(
        own_program("outgrow.launcher.relay"),
        input=b"copied",
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHOME": "", "PYTHONSTARTUP": "x"},
        timeout=20,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"copied", b"")


def test_it_is_given_its_own_arguments_alone() -> None:
    command = own_program("base64", "-t")  # prints a line of what it encoded, and decoded again
    ran = subprocess.run(command, capture_output=True, timeout=20)
    assert ran.returncode == 0, ran.stderr
    assert b"Aladdin" in ran.stdout
