"""The race on cgroup v2: the smaller grid, inside the virtual machine of tests/vm."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import frame

from racing import tables

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT))

from tests.vm.base import CannotBuild, prepare  # noqa: E402
from tests.vm.machine import Machine, Script  # noqa: E402

_LONGEST = 1500.0
_PYTHON = (
    "PYTHONPATH=/opt/outgrow/src:/opt/outgrow/site:/opt/outgrow/benchmarks PYTHONUNBUFFERED=1"
    " python3 -B"
)
_ABOUT = f"{_PYTHON} -c 'import frame; print(frame.machine())'"


def main(options: argparse.Namespace) -> int:
    """Run it there; the exit status."""
    try:
        base = prepare(CHECKOUT)
    except CannotBuild as reason:
        sys.exit(f"race: {reason}")
    load = frame.Load()
    with tempfile.TemporaryDirectory(prefix="outgrow-race-") as folder:
        report, about = race(
            Machine(base, CHECKOUT, Path(folder), files=files()), arguments(options)
        )
    footer = f"cgroup v2, emulated, 10 to 20 times slower than its host; {about}; {load}"
    return frame.publish(report, options.json, tables.show(report, footer))


def race(machine: Machine, words: str) -> tuple[frame.Report, str]:
    """One boot: what `race.py --emulated WORDS` found there, and the machine in one line."""
    command = f"{_PYTHON} /opt/outgrow/benchmarks/race.py --emulated --json --disk /data {words}"
    done = machine.run_many(
        {"about": _ABOUT, "race": Script(f"{command} || test $? = 1", _LONGEST)}
    )
    output = done["race"].check()
    try:
        found = json.loads(output[output.index('{\n "schema"') :])
    except ValueError:
        raise AssertionError(output) from None
    goals = [frame.Goal(**goal) for goal in found["goals"]]
    return frame.Report(found["rows"], goals), done["about"].check().strip()


def files() -> dict[str, Path]:
    """What the machine needs beside outgrow itself."""
    return {"/opt/outgrow/benchmarks": CHECKOUT / "benchmarks"}


def arguments(options: argparse.Namespace) -> str:
    """The options that are handed on."""
    return " ".join(
        [
            *(["--quick"] if options.quick else []),
            *(["--only", f"'{options.only}'"] if options.only else []),
        ]
    )
