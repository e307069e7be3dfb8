"""What every benchmark has in common: options, tables, goals, and the form of `--json`.

    {"schema": 1, "rows": […], "goals": [{"name", "value", "goal", "met"}]}

A row is one measurement, with a field for each of its properties; what was not measured is null.
The exit status is 1 when a goal was missed, so that a benchmark can stand in a pipeline.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
Row = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """What a figure should be, and what it was; `value` is None when nothing was measured, and a
    goal without a measurement is not met."""

    name: str
    value: float | None
    goal: str
    met: bool


def at_most(name: str, value: float | None, bound: float) -> Goal:
    """A figure that may not be above `bound`."""
    return Goal(name, value, f"at most {bound:g}", value is not None and value <= bound)


def at_least(name: str, value: float | None, bound: float) -> Goal:
    """A figure that may not be below `bound`."""
    return Goal(name, value, f"at least {bound:g}", value is not None and value >= bound)


def exactly(name: str, value: float | None, wanted: float) -> Goal:
    """A count that has one right value."""
    return Goal(name, value, f"{wanted:g}", value == wanted)


@dataclass
class Report:
    """What a run has found."""

    rows: list[Row] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)

    def as_json(self) -> str:
        """The whole of it, for programs."""
        goals = [vars(goal) for goal in self.goals]
        return json.dumps({"schema": SCHEMA, "rows": self.rows, "goals": goals}, indent=1)

    @property
    def status(self) -> int:
        """The exit status: 1 when a goal was missed."""
        return 0 if all(goal.met for goal in self.goals) else 1


def options(description: str) -> argparse.ArgumentParser:
    """A parser that has what all benchmarks have; add to it what one has beside that."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a part of it, in less than 60 s")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="rows and goals for programs, to FILE beside the tables or instead of them",
    )
    return parser


def add_lock(parser: argparse.ArgumentParser) -> None:
    """The option of what shares a machine with others who measure there."""
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", help="hold an flock(2) on FILE, and let others in"
    )


class Turns:
    """Taking turns with all who ask for the same lock: held from the first `next_one`, and given
    back between two measurements once it was held for so long. Without a file it is nothing."""

    def __init__(self, file: Path | None, longest: float = 200.0) -> None:
        """`longest` in seconds: beyond that only the measurement under way is finished."""
        self._file = file.open("a") if file else None
        self._longest = longest
        self._since: float | None = None

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def next_one(self) -> None:
        """Before each measurement: it may wait here for its turn."""
        if self._file is None:
            return
        if self._since is not None and time.monotonic() - self._since > self._longest:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._since = None
            time.sleep(1)  # whoever waits is woken, and takes it
        if self._since is None:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._since = time.monotonic()


def publish(report: Report, json_to: str | None, text: str) -> int:
    """Print what `--json` asks for: tables, JSON, or tables and JSON to a file. The exit status."""
    if json_to not in (None, "-"):
        Path(json_to).write_text(report.as_json() + "\n")
    print(report.as_json() if json_to == "-" else text)
    return report.status


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines of columns as wide as what stands in them; all but the first stand right."""
    cells = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def goal_table(goals: Sequence[Goal]) -> str:
    """The goals as a table."""
    return table(
        ("goal", "value", "wanted", "met"),
        [(goal.name, number(goal.value), goal.goal, "yes" if goal.met else "NO") for goal in goals],
    )


def number(value: float | None, digits: int = 1) -> str:
    """A figure for a table: `-` where there is none, whole numbers without a point."""
    if value is None:
        return "-"
    return f"{value:g}" if float(value).is_integer() else f"{value:.{digits}f}"


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The smallest value that at least `percent` % of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def progress(text: str) -> None:
    """A line that the next one overwrites, for whoever waits at a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def filesystem(folder: Path) -> str:
    """The kind of filesystem that a folder is on."""
    where = folder.resolve()
    mounts = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind = line.split()[:3]
        mounts[Path(point)] = kind  # of several at one point the last is on top
    return next((mounts[path] for path in (where, *where.parents) if path in mounts), "unknown")


def machine() -> str:
    """This machine in one line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        os.uname().machine,
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"Linux {os.uname().release}, {os.cpu_count()} cores ({model}), {memory:.0f} GiB,"
        f" Python {sys.version.split()[0]}"
    )


class Load:
    """How much of the machine others used while the benchmark ran, from /proc/stat."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds()
        self._own = _own_seconds()
        self._average = os.getloadavg()[0]

    def __str__(self) -> str:
        seconds = time.monotonic() - self._began
        others = _busy_seconds() - self._busy - (_own_seconds() - self._own)
        share = max(0.0, others / seconds / (os.cpu_count() or 1))
        return (
            f"{seconds:.0f} s; other processes used {share:.0%} of the processors meanwhile;"
            f" load average before {self._average:.1f}, after {os.getloadavg()[0]:.1f}"
        )


def _busy_seconds() -> float:
    first = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = map(int, first)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    ours = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in ours)
