"""The programs: how each is started, what it needs, and what is done to it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
GIB = 1 << 30


class Case(StrEnum):
    """What is done to a program that must not notice."""

    ONCE = "moved-once"
    THREE = "moved-3-times"
    TEN = "moved-10-times"
    OVER = "over-its-limit"
    KILLED = "killed-and-resumed"

    @property
    def moves(self) -> int:
        """How often it is moved at random instants."""
        return {Case.ONCE: 1, Case.THREE: 3, Case.TEN: 10}.get(self, 0)


USUAL = (Case.ONCE, Case.THREE, Case.OVER, Case.KILLED)


@dataclass(frozen=True)
class Dialogue:
    """What a person types at a program in a terminal: each line when the last one was answered."""

    ready: str
    """A pattern that ends what it says before the first line."""

    lines: tuple[tuple[str, str], ...]
    """What is typed, and a pattern that ends the answer to it."""

    where: tuple[str, str]
    """What asks it how many of the lines it has heard, with a pattern whose group is that."""


@dataclass(frozen=True)
class Program:
    """One that runs for some seconds and prints an answer that is always the same."""

    name: str
    command: tuple[str, ...]

    needs: tuple[str, ...] = ()
    """Names of programs, each of which may be alternatives (`a|b`)."""

    modules: tuple[str, ...] = ()
    """What it imports beside Python's own."""

    gib: int = 0
    """Memory that must be free for it, and as much again on disk; 0 where nobody lacks that."""

    limit: str = "96MiB"
    """One that it outgrows, with the room that it needs to start in."""

    pushed: bool = True
    """Whether it is pushed over that by memory which something beside it takes: it grows little
    itself."""

    next_size: str = "1.3x"
    """What follows the limit."""

    roomy: str = "256MiB"
    """One that it does not outgrow."""

    longer: str = ""
    """The argument with which it runs so many times as long, where it is moved ten times."""

    dialogue: Dialogue | None = None
    """With one, it runs in a terminal."""

    usual: tuple[Case, ...] = USUAL

    known: str = ""
    """Why it cannot be saved yet; then it only has to run on."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """What is done to it."""
        return (*self.usual, Case.TEN) if self.longer else self.usual

    def for_case(self, case: Case) -> Program:
        """Itself, or for ten moves the longer one."""
        if case is not Case.TEN:
            return self
        return replace(
            self, name=f"{self.name}-{self.longer}", command=(*self.command, self.longer)
        )

    def missing(self, folder: Path) -> str:
        """What it needs and this machine lacks, with its files in `folder`, and what to do."""
        lacks = [
            name for name in self.needs if not any(shutil.which(one) for one in name.split("|"))
        ]
        if lacks:
            return f"needs {', '.join(lacks)}: install it"
        absent = [name for name in self.modules if importlib.util.find_spec(name) is None]
        if absent:
            return _how_to_get(absent)
        memory, disk = _free_memory(), shutil.disk_usage(folder).free
        if min(memory, disk) < self.gib * GIB:
            return (
                f"needs {self.gib} GiB of free memory and as much on disk in {folder}, and has"
                f" {memory / GIB:.1f} and {disk / GIB:.1f}: run it on a larger machine, or with"
                " pytest's --basetemp on a larger disk"
            )
        return ""


def _how_to_get(modules: list[str]) -> str:
    if "torch" in modules:
        return (
            "needs torch: .venv/bin/python -m pip install torch (its build for the CPU is enough;"
            " what the usual index has for Linux brings gigabytes of CUDA with it)"
        )
    return f"needs {', '.join(modules)}: run scripts/setup.sh zoo"


def _free_memory() -> int:
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return int(found.group(1)) * 1024 if found else 0


def _python(
    file: str,
    *,
    limit: str = "",
    roomy: str = "256MiB",
    longer: str = "",
    needs: tuple[str, ...] = (),
    modules: tuple[str, ...] = (),
) -> Program:
    command = (sys.executable, "-u", str(PROGRAMS / file))
    name = file.removesuffix(".py")
    program = Program(name, command, needs, modules, roomy=roomy, longer=longer)
    return replace(program, limit=limit, pushed=False) if limit else program


def _bash(file: str, *needs: str, longer: str = "") -> Program:
    name = file.removesuffix(".sh")
    return Program(name, ("bash", str(PROGRAMS / file)), ("bash", *needs), longer=longer)


_TERMINAL = ("env", "-u", "LINES", "-u", "COLUMNS", "TERM=xterm")
"""The terminal's size is asked of the terminal."""
_PROMPT = Program(
    "prompt",
    (*_TERMINAL, "PYTHON_HISTORY=", sys.executable, "-i", str(PROGRAMS / "prompt.py")),
    limit="48MiB",
    pushed=False,
    dialogue=Dialogue(
        ready=r">>> $",
        lines=(
            *((f"step({number})\n", rf"\n{number}: \d+\r\n.*>>> $") for number in range(120)),
            ("end()\n", r"\nanswer [^\n]*\n"),
        ),
        where=("\nwhere()\n", r"\nheard (\d+)\r\n"),
    ),
)
_SCREEN = Program(
    "screen",
    (*_TERMINAL, sys.executable, str(PROGRAMS / "screen.py")),
    limit="48MiB",
    pushed=False,
    dialogue=Dialogue(
        ready=r"ready",
        lines=(
            *(("abcdefgh"[number % 8], rf"<{number + 1}>") for number in range(120)),
            ("q", r"\nanswer [^\n]*\n"),
        ),
        where=("?", r"heard (\d+) keys"),
    ),
)
_LEARNING = Program(
    "learning",
    (sys.executable, "-u", str(PROGRAMS / "learning.py"), "multiprocessing"),
    modules=("numpy", "joblib", "sklearn"),
    limit="112MiB",
    pushed=False,
    roomy="1GiB",
)

ZOO = (
    _python("threads.py", limit="48MiB"),
    _python("processes.py"),
    _bash("pipeline.sh"),
    _python("files.py", longer="2"),
    _python("database.py", longer="2"),
    _python("events.py", longer="3"),
    _python("watched.py"),
    _python("signals.py"),
    _python("network.py", longer="3"),
    # It comes back with twice the memory: pages that its processes shared since they were forked
    # are then their own.
    replace(
        _python("crowd.py", roomy="2GiB"),
        limit="256MiB",
        next_size="2x",
        usual=(Case.ONCE, Case.OVER, Case.KILLED),
    ),
    _bash("build.sh", "make", "gcc"),
    Program(
        "node",
        ("node", str(PROGRAMS / "program.js")),
        ("node",),
        roomy="512MiB",
        longer="3",
    ),
    Program(
        "java",
        ("java", "-Xmx64m", str(PROGRAMS / "Program.java")),
        ("java", "javac"),
        roomy="512MiB",
    ),
    _PROMPT,
    _SCREEN,
    _python("store.py", limit="28MiB", needs=("redis-server|redis-check-rdb",)),
    _LEARNING,
    replace(
        _LEARNING,
        name="learning-loky",
        command=(*_LEARNING.command[:-1], "loky"),
        usual=(Case.ONCE,),
        known="CRIU cannot write down a semaphore that has a name, as joblib's loky makes them",
    ),
    _python("training.py", limit="240MiB", roomy="1GiB", modules=("torch",)),
    Program(
        "large",
        (sys.executable, "-u", str(PROGRAMS / "large.py"), "6144"),
        gib=9,
        limit="5GiB",
        pushed=False,
        roomy="8GiB",
        usual=(Case.OVER,),
    ),
)
