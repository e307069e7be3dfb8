"""The job of a case: its command, and starting it in a cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import growth

from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2
from racing.cases import MIB, Case
from racing.place import Place

HERE = Path(__file__).parents[1]
MARGIN = 16 * MIB
"""Growth at the case's rate begins this far below the mark."""
BEYOND = 128 * MIB
"""A job takes this much more than its limit, so that nothing but a larger one can hold it."""
_INTERPRETERS = 128 * MIB
"""64 of them, forked from one, take 80 MiB."""
JOIN = 'for file in $0; do echo 0 > "$file"; done; exec "$@"'


@dataclass
class Started:
    """A running job, and the page on which it writes its times (none for streams)."""

    process: subprocess.Popen[str]
    board: growth.Board | None

    def end(self, timeout: float) -> tuple[int, str, str]:
        """Wait for it: status, output, and what it said on standard error."""
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err


def command(case: Case, place: Place, extra: list[str] | None = None) -> list[str]:
    """What runs."""
    python = [sys.executable, "-I", "-S"]
    processes = ["--processes", str(case.processes)]
    if case.streams:
        stream = ["--file", str(place.cold_stream()), "--own", str(case.own // MIB)]
        return [*python, str(HERE / "streaming.py"), case.kind, *stream, *processes]
    return [
        *(*python, str(HERE / "growth.py"), "--kind", case.kind, *processes),
        *(["--huge"] if case.huge else []),
        *("--prefill", str(prefill(case) // MIB)),
        *("--grow", str((case.limit + BEYOND - prefill(case)) // MIB)),
        *("--rate", str(case.rate)),
        *("--folder", str(place.folder(case.kind, huge=case.huge))),
        *(extra or []),
    ]


def prefill(case: Case) -> int:
    """Bytes that are filled before the race begins."""
    return max(0, case.mark - MARGIN)


def memory(case: Case) -> int:
    """Bytes that it needs in all."""
    return case.limit + BEYOND + _INTERPRETERS


def expected(case: Case, place: Place) -> str:
    """What it prints when all is right."""
    if case.streams:
        return f"OK {place.stream.stat().st_size} {place.stream_sums[case.kind]:08x}\n"
    block = growth.HUGE if case.huge else growth.SMALL_BLOCK
    count = growth.blocks(
        prefill(case) // MIB, (case.limit + BEYOND - prefill(case)) // MIB, case.processes, block
    )
    return f"OK {sum(count) * block * case.processes}\n"


@contextmanager
def started(case: Case, place: Place, cgroup: CgroupV1 | CgroupV2) -> Iterator[Started]:
    """The job, in the cgroup; it is dead at the end."""
    extra, board = [], None
    if not case.streams:
        file = place.small / "board"
        file.write_bytes(bytes(growth.Board.length(case.processes)))
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        board = growth.Board(case.processes, descriptor)
        os.close(descriptor)
        extra = [
            *("--board", str(file), "--usage", str(usage_file(cgroup))),
            *("--threshold", str(case.mark), "--margin", str(MARGIN // MIB)),
        ]
    process = subprocess.Popen(
        ["/bin/sh", "-c", JOIN, " ".join(cgroup.join_files), *command(case, place, extra)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Started(process, board)
    finally:
        cgroup.thaw()
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def usage_file(cgroup: CgroupV1 | CgroupV2) -> Path:
    """Where the kernel tells what the cgroup uses."""
    if isinstance(cgroup, CgroupV1):
        return cgroup.memory / "memory.usage_in_bytes"
    return cgroup.path / "memory.current"
