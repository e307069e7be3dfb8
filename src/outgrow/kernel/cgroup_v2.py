"""A cgroup with memory controller and freezer on cgroup v2.

Kernel behaviour: Documentation/admin-guide/cgroup-v2.rst (memory.high, memory.events,
cgroup.freeze), tried on Linux 6.12.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from outgrow.core.errors import Unsupported
from outgrow.core.sample import MemoryReading
from outgrow.core.units import MIB
from outgrow.kernel.files import Files, key_values, processes_below, read, remove_tree
from outgrow.ports import Undo

_ROOM_TO_HOLD = 16 * MIB
"""What an engine maps into the tasks that it writes down, with room to spare."""


class CgroupV2:
    """One directory of the unified hierarchy."""

    poll_mask = select.EPOLLPRI
    tells_of_kernel_memory = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.limit = 0
        self._events = -1
        self._files = Files()
        self._high_seen = 0
        self._raised = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return (str(self.path),)

    @property
    def join_files(self) -> tuple[str, ...]:
        return (f"{self.path}/cgroup.procs",)

    @property
    def freezer_path(self) -> str:
        return str(self.path)

    def create(self, limit: int) -> None:
        parent = self.path.parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            for above in (parent.parent, parent):
                if "memory" not in read(above / "cgroup.subtree_control").split():
                    self._files.write(above / "cgroup.subtree_control", "+memory")
            self.path.mkdir(exist_ok=True)
            if (self.path / "memory.swap.max").exists():
                self._write("memory.swap.max", "0")  # at the limit it stops; it does not swap
            self.set_limit(limit)
        except OSError as error:
            raise Unsupported(
                f"making a memory cgroup ({error})", remedy="run as root, see `outgrow doctor`"
            ) from None

    def set_limit(self, limit: int) -> None:
        self._write("memory.max", str(limit))
        self.limit, self._raised = limit, 0

    def arm(self, band: int) -> None:
        self._close_events()
        self._enforce()
        for file in ("memory.current", "memory.stat", "cgroup.events"):
            self._files.keep_open(self.path / file, os.O_RDONLY)
        for file in ("cgroup.freeze", "memory.high", "memory.max"):
            self._files.keep_open(self.path / file)
        self._write("memory.high", str(self.limit - band))
        self._events = os.open(self.path / "memory.events", os.O_RDONLY | os.O_CLOEXEC)
        self._high_seen = self._high()

    def brace(self, band: int, room: int) -> None:
        self._close_events()
        self._raise(_ROOM_TO_HOLD + room)
        self._write("memory.high", str(self.limit - band + room))

    def is_starved(self) -> bool:
        return False  # v2 slows growth down at memory.high, and never lets it wait for ever

    def hold(self) -> None:
        # memory.high would throttle the engine inside, and every one of its pages be an event.
        self._close_events()
        self._write("memory.high", "max")
        self._raise(_ROOM_TO_HOLD)

    def disarm(self) -> None:
        self._close_events()
        self._enforce()
        self._write("memory.high", "max")
        self._files.close()

    def fileno(self) -> int:
        return self._events

    def acknowledge(self) -> bool:
        seen, self._high_seen = self._high_seen, self._high()
        return self._high_seen != seen

    def freeze(self, timeout: float) -> bool:
        self._write("cgroup.freeze", "1")
        end = time.monotonic() + timeout
        looks = 0
        while not self._stands():
            if time.monotonic() > end:
                return False
            looks += 1
            time.sleep(0.0005 if looks < 100 else 0.005)
        return True

    def thaw(self) -> None:
        self._write("cgroup.freeze", "0")

    def is_frozen(self) -> bool:
        return self._read("cgroup.freeze") == "1"

    def usage(self) -> int:
        return int(self._read("memory.current"))

    def reading(self) -> MemoryReading:
        usage = self.usage()
        stat = key_values(self._read("memory.stat"))
        cache = stat.get("inactive_file", 0) + stat.get("active_file", 0)
        dirty = min(stat.get("file_dirty", 0) + stat.get("file_writeback", 0), cache)
        return MemoryReading(usage=usage, clean_cache=cache - dirty, dirty_cache=dirty)

    def drop_cache(self, to: int) -> None:
        """Through memory.reclaim (Linux 5.19); without it the kernel's own reclaim at
        memory.high does the same, only later."""
        above = self.reading().usage - to
        if above > 0 and (self.path / "memory.reclaim").exists():
            try:
                self._write("memory.reclaim", str(above))
            except OSError:  # EAGAIN: less than that could be dropped
                pass

    def peak(self) -> int:
        try:
            return int(self._read("memory.peak"))  # Linux 5.19
        except FileNotFoundError:
            return int(self._read("memory.current"))

    def oom_kills(self) -> int:
        return key_values(self._read("memory.events")).get("oom_kill", 0)

    def processes(self) -> list[int]:
        return processes_below(self.path)

    def undo(self) -> Undo:
        return Undo(
            (
                (f"{self.path}/memory.high", "max"),
                # Not below what it was given while it stood: v2 would kill instead of refusing.
                (f"{self.path}/memory.max", str(self.limit + max(_ROOM_TO_HOLD, self._raised))),
                (f"{self.path}/cgroup.freeze", "0"),
            ),
            alarm=f"{self.path}/memory.events",
        )

    def remove(self) -> None:
        self._close_events()
        self._files.close()
        remove_tree(self.path)

    def _raise(self, room: int) -> None:
        self._raised = room
        self._write("memory.max", str(self.limit + room))

    def _enforce(self) -> None:
        if not self._raised:
            return
        # Below its usage the kernel would not refuse, as on v1, but kill.
        fits = self.usage() < self.limit
        self.set_limit(self.limit if fits else self.limit + self._raised)

    def _high(self) -> int:
        # Through the open descriptor: only reading it re-arms EPOLLPRI.
        return key_values(os.pread(self._events, 4096, 0).decode()).get("high", 0)

    def _stands(self) -> bool:
        return key_values(self._read("cgroup.events")).get("frozen") == 1

    def _close_events(self) -> None:
        if self._events >= 0:
            os.close(self._events)
        self._events = -1

    def _read(self, file: str) -> str:
        return self._files.read(self.path / file)

    def _write(self, file: str, text: str) -> None:
        self._files.write(self.path / file, text)
