"""Where a CRIU is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from outgrow.core.errors import Unsupported

VARIABLE = "OUTGROW_CRIU"
REMEDY = (
    "run `make setup`, or install CRIU 4.2 or newer and name it in OUTGROW_CRIU"
    " (docs/how-to/criu.md)"
)


def private_prefix() -> Path:
    """Where `make setup` puts a CRIU of its own: inside the virtual environment."""
    return Path(sys.prefix) / "lib" / "outgrow-criu"


def candidates() -> list[str]:
    """CRIU programs to use, the preferred first: the one that $OUTGROW_CRIU names, the private
    one, the system's."""
    named = os.environ.get(VARIABLE)
    if named:
        return [named]
    found = []
    private = private_prefix() / "criu"
    if os.access(private, os.X_OK):
        found.append(str(private))
    system = shutil.which("criu", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if system:
        found.append(system)
    return found


def find_criu() -> str:
    """The CRIU to use. Raises Unsupported when there is none."""
    for path in candidates():
        if os.access(path, os.X_OK):
            return path
    raise Unsupported("saving jobs: there is no CRIU", remedy=REMEDY)


def version_of(criu: str) -> str:
    """Its version, such as `4.2.1`; empty when it does not say."""
    try:
        run = subprocess.run(
            [criu, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"Version:\s*([0-9][0-9.]*)", run.stdout)
    return match.group(1) if match else ""
