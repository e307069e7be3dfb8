"""A memory cgroup and its freezer on cgroup v1.

Kernel behaviour: Documentation/admin-guide/cgroup-v1/memory.rst (thresholds, oom_control) and
freezer-subsystem.rst, tried on Linux 6.18.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from outgrow.core.errors import Unsupported
from outgrow.core.sample import MemoryReading
from outgrow.core.units import MIB
from outgrow.kernel.files import Files, key_values, processes_below, remove_tree
from outgrow.ports import Undo

_ROOM = 16 * MIB
"""What is given above the limit at a time. For freezing: a task that waits at the limit must finish
its page fault to reach the freezer, and one inside a system call must not be refused memory there,
for it would get ENOMEM or EFAULT, which no program expects. For an engine: what it maps into the
tasks that it writes down. Room to spare for each."""


class CgroupV1:
    """One directory below the memory hierarchy and one below the freezer's, of the same name."""

    poll_mask = select.EPOLLIN
    tells_of_kernel_memory = False
    """Thresholds are looked at when pages are charged to a process (memcg_check_events,
    mm/memcontrol-v1.c), and not for kernel memory."""

    def __init__(self, memory: Path, freezer: Path) -> None:
        self.memory = memory
        self.freezer = freezer
        self.limit = 0
        self._event = -1
        self._watched: list[int] = []
        self._files = Files()
        self._raised = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return (str(self.memory), str(self.freezer))

    @property
    def join_files(self) -> tuple[str, ...]:
        return tuple(f"{path}/cgroup.procs" for path in self.paths)

    @property
    def freezer_path(self) -> str:
        return str(self.freezer)

    def create(self, limit: int) -> None:
        try:
            for path in (self.memory, self.freezer):
                path.mkdir(parents=True, exist_ok=True)
            self._write("memory.swappiness", "0")  # at the limit the job stops; it does not swap
            self.set_limit(limit)
        except OSError as error:
            raise Unsupported(
                f"making a memory cgroup ({error})", remedy="run as root, see `outgrow doctor`"
            ) from None

    def set_limit(self, limit: int) -> None:
        self._write("memory.limit_in_bytes", str(limit))
        self.limit, self._raised = limit, 0

    def arm(self, band: int) -> None:
        self._close_events()
        self._enforce()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        threshold = self.limit - band
        self._register("memory.usage_in_bytes", str(threshold))
        # Also woken when the backstop holds the job, should it have outrun the threshold.
        self._register("memory.oom_control", "")
        for file in ("memory.usage_in_bytes", "memory.stat"):
            self._files.keep_open(self.memory / file, os.O_RDONLY)
        for path in (
            self.freezer / "freezer.state",
            self.memory / "memory.limit_in_bytes",
            self.memory / "memory.oom_control",
        ):
            self._files.keep_open(path)
        self._write("memory.oom_control", "1")

    def brace(self, band: int, room: int) -> None:
        self._close_events()
        self._raise(max(0, _ROOM + room - self._raised))
        self._write("memory.oom_control", "1")

    def is_starved(self) -> bool:
        return key_values(self._read("memory.oom_control")).get("under_oom") == 1

    def hold(self) -> None:
        self._close_events()
        self._raise()

    def disarm(self) -> None:
        self._close_events()
        self._enforce()
        self._write("memory.oom_control", "0")
        self._files.close()

    def fileno(self) -> int:
        return self._event

    def acknowledge(self) -> bool:
        try:
            return os.eventfd_read(self._event) > 0
        except BlockingIOError:
            return False

    def freeze(self, timeout: float) -> bool:
        self._write_freezer("FROZEN")
        self._raise()
        end = time.monotonic() + timeout
        looks = 0
        while self._state() != "FROZEN":
            if time.monotonic() > end:
                return False
            looks += 1
            if looks % 4 == 1 and self.is_starved():
                self._raise()
            time.sleep(0.0002 if looks < 100 else 0.005)
        return True

    def thaw(self) -> None:
        self._write_freezer("THAWED")

    def is_frozen(self) -> bool:
        return self._state() != "THAWED"

    def usage(self) -> int:
        return int(self._read("memory.usage_in_bytes"))

    def reading(self) -> MemoryReading:
        usage = self.usage()
        stat = key_values(self._read("memory.stat"))
        cache = stat.get("total_inactive_file", 0) + stat.get("total_active_file", 0)
        dirty = min(stat.get("total_dirty", 0) + stat.get("total_writeback", 0), cache)
        return MemoryReading(usage=usage, clean_cache=cache - dirty, dirty_cache=dirty)

    def drop_cache(self, to: int) -> None:
        """Lowers the limit to `to` and raises it again: the kernel drops just that much."""
        try:
            self._write("memory.limit_in_bytes", str(to))
        except OSError:  # EBUSY: it could not drop that much; what it dropped is dropped
            pass
        finally:
            self._write("memory.limit_in_bytes", str(self.limit + self._raised))

    def peak(self) -> int:
        return int(self._read("memory.max_usage_in_bytes"))

    def oom_kills(self) -> int:
        return key_values(self._read("memory.oom_control")).get("oom_kill", 0)

    def processes(self) -> list[int]:
        return processes_below(self.freezer)

    def undo(self) -> Undo:
        return Undo(
            (
                (f"{self.memory}/memory.oom_control", "0"),
                (f"{self.memory}/memory.limit_in_bytes", str(self.limit)),
                (f"{self.freezer}/freezer.state", "THAWED"),
            ),
            alarm=f"{self.memory}/memory.oom_control",
            alarm_control=f"{self.memory}/cgroup.event_control",
        )

    def remove(self) -> None:
        self._close_events()
        self._files.close()
        for path in (self.memory, self.freezer):
            remove_tree(path)

    def _raise(self, room: int = _ROOM) -> None:
        self._raised += room
        self._write("memory.limit_in_bytes", str(self.limit + self._raised))

    def _enforce(self) -> None:
        if self._raised:
            try:
                self.set_limit(self.limit)
            except OSError:  # EBUSY: it uses more than that; what it was given, it keeps
                self.limit, self._raised = self.limit + self._raised, 0

    def _register(self, file: str, argument: str) -> None:
        watched = os.open(self.memory / file, os.O_RDONLY | os.O_CLOEXEC)
        self._watched.append(watched)
        self._write("cgroup.event_control", f"{self._event} {watched} {argument}")

    def _close_events(self) -> None:
        for descriptor in (self._event, *self._watched):
            if descriptor >= 0:
                os.close(descriptor)
        self._event = -1
        self._watched.clear()

    def _state(self) -> str:
        return self._files.read(self.freezer / "freezer.state")

    def _write_freezer(self, state: str) -> None:
        self._files.write(self.freezer / "freezer.state", state)

    def _read(self, file: str) -> str:
        return self._files.read(self.memory / file)

    def _write(self, file: str, text: str) -> None:
        self._files.write(self.memory / file, text)
