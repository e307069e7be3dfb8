"""Cgroups for the suite: the fake, and this host's own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2
from outgrow.kernel.cgroups import find_hierarchies
from outgrow.ports import Cgroup, Undo

from .fakes import FakeCgroup, FakeTask

SOON = 20.0
"""Seconds after which a test gives up; nothing is expected to take anywhere near as long."""
A_MOMENT = 0.05
"""Seconds for which nothing must happen."""
_NAMES = count()


class Killed(Exception):
    """The kernel killed the process."""


class Process:
    """A process in a cgroup. Each method returns when it is done, and raises Killed."""

    pid: int

    def fill(self, size: int) -> None:
        """Take `size` bytes more of its own."""
        self.begin_to_fill(size)
        self.finish()

    def begin_to_fill(self, size: int) -> None:
        """The same without waiting."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for that."""
        raise NotImplementedError

    def cache(self, size: int, file: Path) -> None:
        """Have `size` bytes of page cache, all of it clean."""
        raise NotImplementedError

    def runs(self) -> bool:
        """Whether it does anything when told to."""
        raise NotImplementedError

    def end(self) -> None:
        """Be no more."""
        raise NotImplementedError


class Kernel:
    """A cgroup and the kernel that it is in."""

    cgroup: Cgroup
    holds_at_limit = True
    """Whether growth past the limit of an armed cgroup waits, instead of being killed."""
    refuses_limits = True
    """Whether a limit that usage does not fit under is refused, instead of being enforced."""

    def process(self, *, below: str = "") -> Process:
        """A new process in the cgroup, or in a child of it that the job made."""
        raise NotImplementedError

    def apply(self, undo: Undo) -> None:
        """What PID 1 of a job does when nobody else can."""
        raise NotImplementedError

    def is_there(self) -> bool:
        """Whether the cgroup exists."""
        raise NotImplementedError

    def enforced(self) -> int:
        """The limit that the kernel enforces."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing behind."""


class FakeProcess(Process):
    def __init__(self, cgroup: FakeCgroup) -> None:
        self._cgroup = cgroup
        self._wanted = 0
        self._task = FakeTask(next(_NAMES) + 1)
        cgroup.tasks.append(self._task)
        self.pid = self._task.pid

    def begin_to_fill(self, size: int) -> None:
        before = self._task.own
        self._cgroup.charge(self._task, size)
        self._wanted = size - (self._task.own - before)

    def finish(self) -> None:
        if self._task.ended_by:
            raise Killed
        assert self._cgroup.charge(self._task, self._wanted), "it waits"

    def cache(self, size: int, file: Path) -> None:
        self._cgroup.read_file(size)

    def runs(self) -> bool:
        return not self._cgroup.frozen and not self._task.ended_by

    def end(self) -> None:
        self._task.ended_by = self._task.ended_by or 15
        self._task.own = 0


class FakeKernel(Kernel):
    def __init__(self) -> None:
        self.fake = FakeCgroup()
        self.cgroup = self.fake

    def process(self, *, below: str = "") -> Process:
        return FakeProcess(self.fake)

    def apply(self, undo: Undo) -> None:
        for path, text in undo.writes:
            self.fake.write(path, text)

    def is_there(self) -> bool:
        return self.fake.exists

    def enforced(self) -> int:
        return self.fake.enforced()

    def close(self) -> None:
        for task in self.fake.tasks:
            task.ended_by = 9
        self.fake.remove()


class RealProcess(Process):
    def __init__(self, join: list[str]) -> None:
        script = Path(__file__).with_name("child.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), *join],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = int(self._line())

    def begin_to_fill(self, size: int) -> None:
        self._tell(f"fill {size}")

    def finish(self) -> None:
        self._line()

    def cache(self, size: int, file: Path) -> None:
        self._tell(f"cache {size} {file}")
        self._line()

    def runs(self) -> bool:
        self._tell("ping")
        answered = self._answers(A_MOMENT)
        if answered:
            self._line()
        return answered

    def catch_up(self) -> None:
        """Read the answer to a ping that it got while it stood."""
        assert self._line() == "ping"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def _answers(self, timeout: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], timeout)[0])

    def _line(self) -> str:
        assert self._process.stdout is not None
        assert self._answers(SOON), "it does not answer"
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise Killed
        return line.strip()


class RealKernel(Kernel):
    """This host's."""

    def __init__(self, cgroup: CgroupV1 | CgroupV2) -> None:
        self.real = cgroup
        self.cgroup = cgroup
        self.holds_at_limit = self.refuses_limits = isinstance(cgroup, CgroupV1)
        self._processes: list[RealProcess] = []

    def process(self, *, below: str = "") -> RealProcess:
        join = [str(Path(path, below, "cgroup.procs")) for path in self.cgroup.paths]
        for file in join:
            Path(file).parent.mkdir(exist_ok=True)
        process = RealProcess(list(self.cgroup.join_files) if not below else join)
        self._processes.append(process)
        return process

    def apply(self, undo: Undo) -> None:
        for path, text in undo.writes:
            descriptor = os.open(path, os.O_WRONLY)
            os.write(descriptor, text.encode())
            os.close(descriptor)

    def is_there(self) -> bool:
        return any(Path(path).exists() for path in self.cgroup.paths)

    def enforced(self) -> int:
        file = "memory.limit_in_bytes" if isinstance(self.real, CgroupV1) else "memory.max"
        return int(Path(self.cgroup.paths[0], file).read_text())

    def close(self) -> None:
        # Not by the code under test: a process that stands could never be ended.
        for path in self.cgroup.paths:
            for file, text in (
                ("memory.oom_control", "0"),
                ("freezer.state", "THAWED"),
                ("cgroup.freeze", "0"),
            ):
                if Path(path, file).exists():
                    Path(path, file).write_text(text)
        for process in self._processes:
            process.end()
        self.cgroup.remove()
        for path in self.cgroup.paths:
            for folder, _, _ in os.walk(path, topdown=False):
                os.rmdir(folder)


def real_kernel(version: int) -> RealKernel:
    """This host's cgroup of that version; skips where there is none."""
    hierarchies = find_hierarchies()
    if version not in (hierarchies.version, 2 if hierarchies.unified else None):
        pytest.skip(
            f"no memory controller on cgroup v{version} here: run it on a host that boots with one"
        )
    if os.geteuid() != 0:
        pytest.skip("making a cgroup takes root: run the tests with sudo")
    cgroup = hierarchies.cgroup(f"contract-{os.getpid()}-{next(_NAMES)}")
    if isinstance(cgroup, CgroupV1) != (version == 1):
        pytest.skip(f"this host's jobs use another cgroup than v{version}")
    return RealKernel(cgroup)


KERNELS: list[Callable[[], Kernel]] = [
    FakeKernel,
    lambda: real_kernel(1),
    lambda: real_kernel(2),
]
