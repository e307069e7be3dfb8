"""The same jobs without outgrow: the kernel alone, and earlyoom beside it."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from frame import Row

from outgrow.kernel.proc import memory_total_and_available
from racing.cases import Case, Way
from racing.guarded import LONGEST
from racing.jobs import expected, memory, started
from racing.place import Place
from racing.rows import new_row

_STARTS = 5.0
_SAFE_SHARE = 0.5
"""earlyoom kills, anything on this host, when less than a tenth of its memory is available; it is
started only while there is far more."""


class Absent(Exception):
    """It cannot run here; the message says why."""


def race(case: Case, place: Place) -> Row:
    """Run the case; its row. Nothing is saved: what is seen is who was killed, and by whom."""
    row = new_row(case, place.version)
    place.warm(memory(case))
    began = time.monotonic()
    try:
        if case.way is Way.EARLYOOM:
            with earlyoom() as said:
                _run(row, case, place)
                words = said()
                acted = re.search(r"sending SIG(TERM|KILL) to process", words)
                available = re.findall(r"mem avail: .*?\(([0-9. ]+)%\)", words)
                what = "killed it" if acted else "did nothing"
                row["note"] = f"earlyoom saw {available[-1].strip()} % available and {what}"
        else:
            _run(row, case, place)
    except Absent as reason:
        row["note"], row["right"], row["killed"] = str(reason), None, None
    row["seconds"] = time.monotonic() - began
    place.clean()
    return row


def _run(row: Row, case: Case, place: Place) -> None:
    with place.cgroup(case.limit) as cgroup, started(case, place, cgroup) as job:
        try:
            status, out, err = job.end(LONGEST)
        except subprocess.TimeoutExpired:
            status, out, err = -1, "", f"not at its end after {LONGEST:g} s"
        row["killed"] = cgroup.oom_kills()
        row["saved"] = False
        row["right"] = status == 0 and out == expected(case, place)
        row["note"] = err.strip().partition("\n")[0]


@contextmanager
def earlyoom() -> Iterator[Callable[[], str]]:
    """earlyoom as Debian starts it, reporting each second; gives a function that says what it has
    said so far. Raises Absent."""
    program = shutil.which("earlyoom")
    if program is None:
        raise Absent("not installed here: apt-get install earlyoom")
    total, available = memory_total_and_available()
    if available < _SAFE_SHARE * total:
        raise Absent("not started: this host has too little memory to be safe from it")
    process = subprocess.Popen(
        [program, "-r", "1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    lines: list[str] = []
    stream = process.stdout

    def said(patience: float = 0.0) -> str:
        while select.select([stream], [], [], patience)[0]:
            piece = os.read(stream.fileno(), 65536).decode(errors="replace")
            lines.append(piece)
            if not piece or "mem avail" in piece:
                break
        return "".join(lines)

    try:
        if "mem avail" not in said(_STARTS):
            raise Absent(f"it did not start: {''.join(lines).strip()}")
        yield said
    finally:
        process.terminate()
        process.wait()
        stream.close()
