"""One run of a job in one of the ways."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from frame import Row
from product import LONGEST, Product, finish
from racing.jobs import JOIN
from racing.place import Place

from overheads.cases import LIMIT, MIB, Case, Way, new_row

_WORKING = Path(__file__).parents[1] / "working.py"
JOB = "overhead"


def measure(case: Case, way: Way, place: Place) -> Row:
    """The row. Raises RuntimeError where the job did not end well."""
    row = new_row(case, way)
    command = [
        *(sys.executable, "-I", "-S", str(_WORKING), case.kind),
        *("--amount", str(case.amount), "--folder", str(place.small)),
    ]
    if way is Way.OUTGROW:
        _under_outgrow(row, command, place)
    elif way is Way.LIMITED:
        with place.cgroup(LIMIT) as cgroup:
            join = ["/bin/sh", "-c", JOIN, " ".join(cgroup.join_files)]
            _bare(row, [*join, *command])
    else:
        _bare(row, command)
    return row


def _bare(row: Row, command: list[str]) -> None:
    began = time.monotonic()
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST
    )
    row["whole_seconds"] = time.monotonic() - began
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    row["seconds"], row["processor_seconds"] = told(done.stdout)


def _under_outgrow(row: Row, command: list[str], place: Place) -> None:
    product = Product(place.disk / "state")
    began = time.monotonic()
    try:
        words = ("--name", JOB, "--memory", f"{LIMIT // MIB}MiB", "--", *command)
        output = finish(product.start("run", *words, output=subprocess.PIPE))
        row["whole_seconds"] = time.monotonic() - began
        row["seconds"], row["processor_seconds"] = told(output)
        row["saves"] = len(product.story(JOB)["saves"])
    finally:
        product.clear(JOB)


def told(output: str) -> tuple[float, float]:
    """Seconds and processor seconds, as the job says them. Raises RuntimeError."""
    words = output.split()
    if len(words) != 3 or words[0] != "OK":
        raise RuntimeError(f"the job said {output!r}")
    return float(words[1]), float(words[2])
