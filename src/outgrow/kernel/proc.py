"""What /proc says of processes and of this host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from outgrow.kernel.files import read

PROC = Path("/proc")


@dataclass(frozen=True)
class Kinship:
    """`state` as in ps(1); PIDs of its parent and of the leader of its session, 0 where that is not
    in this namespace; its `start` in clock ticks since boot, which together with its PID names one
    process for the lifetime of a boot (proc(5), stat)."""

    state: str
    parent: int
    session: int
    start: int


def kinship(pid: int, proc: Path = PROC) -> Kinship | None:
    """Of a process; None when it is gone."""
    try:
        text = read(proc / str(pid) / "stat")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Kinship(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def descriptors(pid: int, proc: Path = PROC) -> list[int]:
    """Numbers of its open descriptors. Empty when it is gone."""
    try:
        return [int(name) for name in os.listdir(proc / str(pid) / "fd")]
    except OSError:
        return []


def with_zombies(pids: Iterable[int], proc: Path = PROC) -> set[int]:
    """The processes and their children, of whom some may have ended without being waited for: these
    are in no cgroup, and still have their numbers (proc(5), task/TID/children)."""
    found = set(pids)
    for pid in tuple(found):
        for file in (proc / str(pid) / "task").glob("*/children"):
            try:
                found.update(int(word) for word in read(file).split())
            except OSError:
                continue
    return found


def namespace_ids(pid: int, proc: Path = PROC) -> set[int]:
    """Every number that a process takes up in its innermost PID namespace: its threads' ids, its
    process group and its session. Empty when it is gone."""
    found: set[int] = set()
    try:
        tasks = list((proc / str(pid) / "task").iterdir())
    except OSError:
        return found
    for task in tasks:
        try:
            text = read(task / "status")
        except OSError:
            continue
        for match in re.finditer(r"^NS(?:pid|pgid|sid):(.*)$", text, re.MULTILINE):
            found.add(int(match.group(1).split()[-1]))
    return found


def hinders_its_tracer(pid: int, proc: Path = PROC) -> bool:
    """Whether a task that was stopped by a signal, and frozen as well, keeps a tracer waiting.

    PTRACE_SEIZE of a stopped task waits until it has gone over into the traced state
    (JOBCTL_TRAPPING, kernel/ptrace.c), which it cannot while a cgroup v1 freezer holds it.
    """
    try:
        traced = re.search(r"^TracerPid:\s*([1-9])", read(proc / str(pid) / "status"), re.MULTILINE)
        return traced is not None and read(proc / str(pid) / "wchan") == "do_signal_stop"
    except OSError:
        return False


def memory_total_and_available(proc: Path = PROC) -> tuple[int, int]:
    """MemTotal and MemAvailable of this host, in bytes."""
    text = read(proc / "meminfo")
    values = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        values[key] = int(value.split()[0]) * 1024 if value.split() else 0
    return values["MemTotal"], values.get("MemAvailable", values.get("MemFree", 0))


def swap_total(proc: Path = PROC) -> int:
    """SwapTotal in bytes."""
    match = re.search(r"^SwapTotal:\s+(\d+) kB", read(proc / "meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def cpu_features(proc: Path = PROC) -> frozenset[str]:
    """The CPU's feature flags, as the kernel names them."""
    for line in read(proc / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
