"""outgrow, started as a user starts it, and what its journal tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LONGEST = 300.0
"""Seconds; nothing that is asked of it takes so long."""


class Product:
    """One state directory. Its errors are raised as RuntimeError, in outgrow's own words."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def start(self, verb: str, *words: str, output: int = subprocess.DEVNULL) -> Started:
        """`outgrow VERB --state-dir STATE WORDS`, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "outgrow", verb, "--state-dir", str(self.state), *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, verb: str, *words: str) -> str:
        """The same, to its end: what it printed. Raises RuntimeError."""
        return finish(self.start(verb, *words, output=subprocess.PIPE))

    def story(self, job: str) -> dict[str, Any]:
        """What the journal tells of a job."""
        story: dict[str, Any] = json.loads(self.call("show", job, "--json"))
        return story

    def clear(self, job: str) -> None:
        """Whatever there is of it: ended, and forgotten."""
        for words in (["kill", job], ["forget", job, "--force"]):
            finish(self.start(*words), check=False)


Started = subprocess.Popen[str]


def finish(process: Started, *, check: bool = True) -> str:
    """Wait for it; what it printed. Raises RuntimeError for a status other than 0."""
    try:
        out, err = process.communicate(timeout=LONGEST)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if check and process.returncode:
        raise RuntimeError(f"status {process.returncode}: {err.strip()}")
    return out or ""
