"""The programs: how each is started, and what it needs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Program:
    """One that runs for some seconds and prints an answer that is always the same."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()

    limit: str = "48MiB"
    """One that it outgrows, with the room that it needs to start in."""

    roomy: str = "256MiB"
    """One that it does not."""

    def missing(self) -> str:
        """What it needs and this machine lacks, and how to get it."""
        lacks = [name for name in self.needs if shutil.which(name) is None]
        return f"needs {', '.join(lacks)}: install it" if lacks else ""


def _python(file: str, **more: str) -> Program:
    name = file.removesuffix(".py")
    return Program(name, (sys.executable, "-u", str(PROGRAMS / file)), **more)  # type: ignore[arg-type]


def _bash(file: str, *needs: str, **more: str) -> Program:
    name = file.removesuffix(".sh")
    return Program(name, ("bash", str(PROGRAMS / file)), ("bash", *needs), **more)


ZOO = (
    _python("threads.py"),
    _python("processes.py"),
    _bash("pipeline.sh"),
    _python("files.py"),
    _python("database.py"),
    _python("events.py"),
    _python("watched.py"),
    _python("signals.py"),
    _python("network.py"),
    _python("crowd.py", limit="256MiB", roomy="2GiB"),
    _bash("build.sh", "make", "gcc"),
    Program("node", ("node", str(PROGRAMS / "program.js")), ("node",), "64MiB", "512MiB"),
    Program(
        "java",
        ("java", "-Xmx64m", str(PROGRAMS / "Program.java")),
        ("java", "javac"),
        "128MiB",
        "512MiB",
    ),
)
