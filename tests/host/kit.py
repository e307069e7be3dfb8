"""Running outgrow as a user does, from another process, with a state directory of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outgrow.journal.reader import JournalReader

ROOT = Path(__file__).parents[2]
GROW = [sys.executable, str(ROOT / "examples" / "grow.py")]
MOVE = ("--on-limit", "move")
PATIENCE = 60.0


@dataclass
class Outgrow:
    """One state directory, and the command line over it."""

    state: Path
    directory: Path

    def start(
        self, *words: str, fault: str = "", under: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start `outgrow WORDS` in a session of its own."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        environment = {**os.environ, "OUTGROW_STATE_DIR": str(self.state), **options.pop("env", {})}
        if fault:
            environment["OUTGROW_FAULT"] = fault
        return subprocess.Popen(
            [*under, sys.executable, "-m", "outgrow", *words],
            cwd=self.directory,
            env=environment,
            start_new_session=True,
            **options,
        )

    def __call__(
        self, *words: str, timeout: float = PATIENCE, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run `outgrow WORDS` to its end."""
        with running(self.start(*words, **options)) as process:
            out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(
            process.args,
            process.returncode,
            (out or b"").decode(errors="replace"),
            (err or b"").decode(errors="replace"),
        )

    def story(self, job: str) -> dict[str, Any]:
        """`show JOB --json`."""
        done = self("show", job, "--json")
        assert done.returncode == 0, done.stderr
        story: dict[str, Any] = json.loads(done.stdout)
        return story

    def steps(self, job: str) -> list[str]:
        """Of its rescues, in order, by name."""
        reader = JournalReader(self.state / "journal.sqlite3")
        try:
            events = reader.events(reader.find(job).id)
        finally:
            reader.close()
        return [event.data["name"] for event in events if event.kind == "step"]

    def jobs(self) -> dict[str, dict[str, Any]]:
        """`ps --all --json`, by name."""
        done = self("ps", "--all", "--json")
        return {job["name"]: job for job in json.loads(done.stdout)["jobs"]}

    def wait_for(self, job: str, *states: str) -> dict[str, Any]:
        """Until the job is in one of the states; its line of `ps`."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.jobs().get(job)
            if found and found["state"] in states:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{job} is {self.jobs().get(job)}, not {states}")

    def cgroups(self, job: str) -> list[Path]:
        """What stands in the cgroup filesystem of the job with this id."""
        return [path for path in Path("/sys/fs/cgroup").rglob(f"outgrow/{job}-*") if path.is_dir()]

    def processes(self, job: str) -> list[int]:
        """The host's PIDs of the job with this id."""
        found = []
        for path in self.cgroups(job):
            if "/freezer/" in f"{path}/" or (path / "cgroup.freeze").exists():
                found += [int(pid) for pid in (path / "cgroup.procs").read_text().split()]
        return sorted(set(found))


def kill_the_job(outgrow: Outgrow, name: str = "j") -> None:
    """SIGKILL for every process of it, as an out-of-memory killer of somebody else's would."""
    for pid in outgrow.processes(outgrow.jobs()[name]["id"]):
        with suppress(ProcessLookupError):  # its parent's death may have been enough
            os.kill(pid, signal.SIGKILL)


def grow(mib: int, seconds: float = 1.0) -> list[str]:
    """The command of examples/grow.py."""
    return [*GROW, str(mib), "--seconds", str(seconds)]


def python(program: str, *arguments: str) -> list[str]:
    """The command that runs a program text."""
    return [sys.executable, "-u", "-c", program, *arguments]


def wait_until(what: Any, patience: float = PATIENCE) -> Any:
    """Until `what()` is true; what it gave."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def read_line(process: subprocess.Popen[bytes], patience: float = PATIENCE) -> str:
    """The next line of its output, read without taking more."""
    assert process.stdout is not None
    line = b""
    end = time.monotonic() + patience
    while not line.endswith(b"\n"):
        if not select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
            raise AssertionError(f"no line, only {line!r}")
        piece = os.read(process.stdout.fileno(), 1)
        if not piece:
            break
        line += piece
    return line.decode()


@contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Kill it at the end, whatever happened."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
