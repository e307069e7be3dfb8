"""How much memory the processes around a job that does nothing hold."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from frame import Row
from product import Product, finish
from racing.place import Place

from overheads.cases import LIMIT, MIB, Way

JOB = "overhead"
_COMMAND = ("sleep", "60")
_SETTLES = 3.0
"""Seconds after which a keeper has done all that it does at first."""
_FIELDS = {"Pss": "pss_bytes", "Rss": "rss_bytes", "Private": "private_bytes"}


def measure(place: Place) -> list[Row]:
    """A row for each process, the keeper first."""
    product = Product(place.disk / "state")
    keeper = product.start("run", "--name", JOB, "--memory", f"{LIMIT // MIB}MiB", "--", *_COMMAND)
    try:
        time.sleep(_SETTLES)
        return [
            _row(pid, "keeper" if pid == keeper.pid else "PID 1 of the job")
            for pid in [keeper.pid, *_descendants(keeper.pid)]
            if not _is_job(pid)
        ]
    finally:
        product.clear(JOB)
        finish(keeper, check=False)


def held(smaps_rollup: str) -> dict[str, int]:
    """Bytes of `Pss`, `Rss` and `Private` (clean and dirty) in a smaps_rollup file (proc(5))."""
    totals = dict.fromkeys(_FIELDS, 0)
    for line in smaps_rollup.splitlines():
        name, _, rest = line.partition(":")
        field = "Private" if name in ("Private_Clean", "Private_Dirty") else name
        if field in totals:
            totals[field] += int(rest.split()[0]) * 1024
    return totals


def _row(pid: int, what: str) -> Row:
    totals = held((Path("/proc") / str(pid) / "smaps_rollup").read_text())
    return {
        "way": str(Way.OUTGROW),
        "process": what,
        **{_FIELDS[name]: size for name, size in totals.items()},
    }


def _descendants(pid: int) -> list[int]:
    done = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=10
    )
    pairs = (line.split() for line in done.stdout.splitlines())
    parents = {int(one): int(parent) for one, parent in pairs}
    return [one for one in sorted(parents) if _is_below(one, pid, parents)]


def _is_below(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _is_job(pid: int) -> bool:
    words = "\0".join(_COMMAND).encode() + b"\0"
    return (Path("/proc") / str(pid) / "cmdline").read_bytes() == words
