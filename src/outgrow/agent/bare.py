"""Running a program in a plain memory cgroup, with the kernel's own rule at its limit: what
happens without outgrow, for comparison."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outgrow.core.sample import Sample
from outgrow.kernel.cgroups import Hierarchies
from outgrow.kernel.clearing import kill_and_remove

_LOOK = 0.1


@dataclass(frozen=True)
class BareRun:
    """How it went: its standard output, status as a shell gives it, and memory over time.
    `started` and `ended` in seconds since the epoch."""

    output: str
    status: int
    started: float
    ended: float
    samples: Sequence[Sample]

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return self.ended - self.started


def run_bare(
    hierarchies: Hierarchies,
    name: str,
    argv: Sequence[str],
    limit: int,
    progress: Callable[[float], None],
) -> BareRun:
    """Run `argv` under `limit` (NO_LIMIT for none). Blocking; `progress` is told the seconds since
    it began. Raises Unsupported where no cgroup can be made."""
    cgroup = hierarchies.cgroup(name)
    cgroup.create(limit)
    files = cgroup.join_files

    def join() -> None:
        for file in files:
            descriptor = os.open(file, os.O_WRONLY)
            os.write(descriptor, b"0")
            os.close(descriptor)

    samples: list[Sample] = []
    started = time.time()
    try:
        with subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=join,  # noqa: PLW1509 - this process has one thread
        ) as process:
            try:
                while process.poll() is None:
                    samples.append(Sample(time.time(), cgroup.usage(), limit))
                    progress(time.time() - started)
                    time.sleep(_LOOK)
            except BaseException:
                process.kill()
                raise
            output = process.stdout.read() if process.stdout else ""
    finally:
        kill_and_remove(cgroup)
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return BareRun(output, status, started, time.time(), samples)
