"""The ports without the world: each passes the same suite as the real thing beside it."""

from __future__ import annotations

import errno
import hashlib
import os
import select
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outgrow.core.errors import Damaged, NotFound
from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord, is_job_id
from outgrow.core.sample import MemoryReading, Sample
from outgrow.core.units import MIB
from outgrow.ports import Description, Draft, Undo


class FakeClock:
    """Time that stands until `pass_by`."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now
        self._since = 0.0

    def now(self) -> float:
        return self._now + self._since

    def monotonic(self) -> float:
        return self._since

    def pass_by(self, seconds: float) -> None:
        """Later. Never earlier."""
        assert seconds >= 0
        self._since += seconds


class FixedScheduler:
    """A Scheduler with room and cap as they are set, in bytes."""

    def __init__(self, room: int, cap: int) -> None:
        self.free = room
        self.largest = cap

    def room(self, apart_from: Sequence[str] = ()) -> int:
        return min(self.free, self.largest)

    def cap(self) -> int:
        return self.largest


@dataclass
class _Kept:
    description: Description
    files: dict[str, bytes]
    digests: dict[str, bytes]


class MemoryStore:
    """A Store of which only drafts, and what is open, lie in files, below `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._drafts: set[tuple[str, int]] = set()

    def room(self) -> int:
        return 1 << 40

    def begin(self, job: str) -> Draft:
        taken = [number for owner, number in (*self._kept, *self._drafts) if owner == _id(job)]
        number = max([0, *taken]) + 1
        images = self._scratch / f"draft-{job}-{number}"
        images.mkdir()
        self._drafts.add((job, number))
        return Draft(job, number, images)

    def write_ahead(self, draft: Draft) -> None:
        pass

    def commit(self, draft: Draft, description: Description) -> Checkpoint:
        files = {path.name: path.read_bytes() for path in draft.images.iterdir()}
        digests = {name: _digest(data) for name, data in files.items()}
        self._kept[draft.job, draft.number] = _Kept(description, files, digests)
        self.abandon(draft)
        size = sum(map(len, files.values()))
        return Checkpoint(draft.job, draft.number, description.incarnation, size, 0.0)

    def abandon(self, draft: Draft) -> None:
        self._drafts.discard((draft.job, draft.number))
        shutil.rmtree(draft.images, ignore_errors=True)

    def open(self, job: str, number: int, *, verify: bool) -> tuple[Description, Path]:
        kept = self._kept.get((_id(job), number))
        if kept is None:
            raise NotFound(f"there is no checkpoint {number} of {job}")
        if {name: _digest(data) for name, data in kept.files.items()} != kept.digests:
            raise Damaged(
                f"checkpoint {number} of job {job} is not what was written",
                preserved="nothing of it was used; it is left as it is",
            )
        images = self._scratch / f"open-{job}-{number}"
        shutil.rmtree(images, ignore_errors=True)
        images.mkdir()
        for name, data in kept.files.items():
            (images / name).write_bytes(data)
        return kept.description, images

    def checkpoints(self, job: str) -> list[int]:
        return sorted(number for owner, number in self._kept if owner == _id(job))

    def delete(self, job: str, number: int) -> None:
        self._kept.pop((_id(job), number), None)

    def files(self, job: str, number: int) -> dict[str, bytes]:
        """The kept bytes themselves, for tests that damage them."""
        return self._kept[job, number].files


def _id(job: str) -> str:
    if not is_job_id(job):
        raise NotFound(f"{job!r} is no job id")
    return job


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@dataclass
class FakeTask:
    """A process in a FakeCgroup."""

    pid: int
    own: int = 0
    ended_by: int = 0


@dataclass
class FakeCgroup:
    """A Cgroup with its kernel: memory is charged by `charge` and `read_file`, as a job would.

    Past the limit the kernel drops clean cache; then, with the backstop armed, the task waits, and
    without it the task is killed.
    """

    tells_of_kernel_memory = True
    name: str = "fake"
    limit: int = 0
    exists: bool = False
    tasks: list[FakeTask] = field(default_factory=list)
    frozen: bool = False
    clean: int = 0
    dirty: int = 0
    waiting: bool = False
    """A task waits at the limit."""
    stuck: bool = False
    """A task waits in the kernel for something else, and cannot be frozen."""
    _peak: int = 0
    _kills: int = 0
    _event: int = -1
    _mark: int | None = None
    _backstop: bool = False
    _raised: int = 0

    poll_mask = select.EPOLLIN

    @property
    def paths(self) -> tuple[str, ...]:
        return (f"/{self.name}",)

    @property
    def join_files(self) -> tuple[str, ...]:
        return (f"/{self.name}/procs",)

    @property
    def freezer_path(self) -> str:
        return f"/{self.name}"

    def create(self, limit: int) -> None:
        self.exists, self.limit = True, limit

    def set_limit(self, limit: int) -> None:
        if self._own() + self.dirty > limit:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self.limit, self.waiting, self._raised = limit, False, 0
        self.clean = min(self.clean, limit - self._own() - self.dirty)

    def arm(self, band: int) -> None:
        self._close()
        self._enforce()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._mark, self._backstop = self.limit - band, True

    def brace(self, band: int, room: int) -> None:
        self.hold()
        self._raised += room
        self._backstop = True

    def is_starved(self) -> bool:
        return self.waiting

    def hold(self) -> None:
        self._close()
        self._raised = 16 * MIB

    def disarm(self) -> None:
        self._close()
        self._enforce()
        self._lift_backstop()

    def fileno(self) -> int:
        return self._event

    def acknowledge(self) -> bool:
        try:
            return os.eventfd_read(self._event) > 0
        except BlockingIOError:
            return False

    def freeze(self, timeout: float) -> bool:
        self.frozen = True
        if self.waiting:
            self._raised, self.waiting = 4 * MIB, False
        return not self.stuck

    def thaw(self) -> None:
        self._check()
        self.frozen = False

    def is_frozen(self) -> bool:
        return self.frozen

    def usage(self) -> int:
        self._check()
        return self._own() + self.clean + self.dirty

    def reading(self) -> MemoryReading:
        return MemoryReading(self.usage(), self.clean, self.dirty)

    def drop_cache(self, to: int) -> None:
        self.clean = max(0, min(self.clean, to - self._own() - self.dirty))

    def peak(self) -> int:
        self._check()
        return self._peak

    def oom_kills(self) -> int:
        return self._kills

    def processes(self) -> list[int]:
        return [task.pid for task in self.tasks if not task.ended_by]

    def undo(self) -> Undo:
        return Undo((("backstop", "0"), ("limit", str(self.limit)), ("frozen", "0")))

    def remove(self) -> None:
        if self.processes():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self._close()
        self.exists = False

    # -- what the job does, and whoever applies `undo`

    def enforced(self) -> int:
        """The limit that the kernel enforces."""
        return self.limit + self._raised

    def write(self, path: str, text: str) -> None:
        """One write of an Undo."""
        match path:
            case "backstop":
                self._lift_backstop()
            case "limit":
                self.set_limit(int(text))
            case "frozen":
                self.thaw()

    def charge(self, task: FakeTask, size: int) -> bool:
        """The task fills `size` bytes; whether it got through: it may wait, or be killed."""
        if self.frozen or task.ended_by:
            return False
        before = self.usage()
        task.own += size
        self.clean = max(0, min(self.clean, self.enforced() - self._own() - self.dirty))
        if self.usage() > self.enforced():
            task.own -= self.usage() - self.enforced()
            self.waiting = True
        self._note(before)
        if self.waiting and not self._backstop:
            self._kill()
        return not self.waiting and not task.ended_by

    def read_file(self, size: int) -> None:
        """A task reads a file of `size` bytes that was in no cache."""
        before = self.usage()
        self.clean = min(self.clean + size, self.enforced() - self._own() - self.dirty)
        self._note(before)

    def _note(self, before: int) -> None:
        self._peak = max(self._peak, self.usage())
        if self._mark is not None and before < self._mark <= self.usage():
            os.eventfd_write(self._event, 1)

    def _kill(self) -> None:
        largest = max(self.tasks, key=lambda task: task.own)
        largest.own, largest.ended_by = 0, signal.SIGKILL
        self._kills += 1
        self.waiting = False

    def _lift_backstop(self) -> None:
        self._backstop = False
        if self.waiting:
            self._kill()

    def _enforce(self) -> None:
        if self._own() + self.dirty > self.limit:
            self.limit += self._raised
        self._raised = 0

    def _own(self) -> int:
        return sum(task.own for task in self.tasks)

    def _check(self) -> None:
        if not self.exists:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name)

    def _close(self) -> None:
        if self._event >= 0:
            os.close(self._event)
        self._event, self._mark = -1, None


class ListJournal:
    """A Journal that keeps what it is given."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.incarnations: dict[tuple[str, int], Incarnation] = {}
        self.checkpoints: dict[tuple[str, int], Checkpoint] = {}
        self.saves: dict[tuple[str, float], SaveRecord] = {}
        self.events: list[tuple[str, str, dict[str, object]]] = []
        self.all_samples: list[tuple[str, int, Sample]] = []

    def job(self, job: Job) -> None:
        self.jobs[job.id] = job

    def incarnation(self, incarnation: Incarnation) -> None:
        if incarnation.job in self.jobs:
            self.incarnations[incarnation.job, incarnation.number] = incarnation

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        if checkpoint.job in self.jobs:
            self.checkpoints[checkpoint.job, checkpoint.number] = checkpoint

    def save(self, record: SaveRecord) -> None:
        if record.job in self.jobs:
            self.saves[record.job, record.started] = record

    def event(self, job: str, kind: str, **data: object) -> None:
        if job in self.jobs:
            self.events.append((job, kind, data))

    def samples(self, job: str, incarnation: int, samples: Sequence[Sample]) -> None:
        if job in self.jobs:
            self.all_samples += [(job, incarnation, sample) for sample in samples]

    def settle(self, timeout: float) -> bool:
        return True
