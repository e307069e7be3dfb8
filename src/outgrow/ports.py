"""What the core needs of the world. Adapters fulfil these; tests have fakes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outgrow.core.connections import Connection, Listener
from outgrow.core.files import FileState
from outgrow.core.fingerprint import Fingerprint
from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.core.sample import MemoryReading, Sample
from outgrow.core.scheduling import ThreadSchedule


class Clock(Protocol):
    """Time, so that tests can hold it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump."""


@dataclass(frozen=True)
class Undo:
    """Writes that give a cgroup back to the kernel: thawed, no backstop, its limit in force.

    Whoever outlives outgrow (PID 1 of the job) applies them in order, and knows nothing else of
    cgroups. `alarm` is a file that tells, by EPOLLPRI, that the job is held up at its limit, and
    that outgrow should be about to do something; `alarm_control`, where it is not empty, is the
    file to register an eventfd for that with (cgroup v1).
    """

    writes: tuple[tuple[str, str], ...]
    alarm: str = ""
    alarm_control: str = ""


class Cgroup(Protocol):
    """One incarnation's memory cgroup with its freezer.

    Of the same meaning on cgroup v1 and v2. `limit` is what is enforced, in bytes.
    """

    limit: int

    @property
    def paths(self) -> tuple[str, ...]:
        """The directories it consists of."""

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files to which a process writes `0` to join."""

    @property
    def freezer_path(self) -> str:
        """The directory that the engine's own freezing uses."""

    @property
    def tells_of_kernel_memory(self) -> bool:
        """Whether `fileno` also becomes ready when it is the kernel that takes memory for the job
        (pipes, sockets)."""

    def create(self, limit: int) -> None:
        """Make it, empty, with its limit set. Raises Unsupported."""

    def set_limit(self, limit: int) -> None:
        """Enforce another limit. Raises OSError where usage does not fit under it."""

    def arm(self, band: int) -> None:
        """From now on `fileno` becomes ready when usage crosses limit - band, and growth past the
        limit waits, where the kernel can do that, instead of killing."""

    def brace(self, band: int, room: int) -> None:
        """The job is about to come back, together with the engine that brings it and needs `room`
        bytes itself: growth past the limit waits or is slowed down, as far as the kernel can, but
        tells nobody. `arm` and `disarm` end that."""

    def is_starved(self) -> bool:
        """Whether a task waits at the limit for memory that nobody will give it."""

    def hold(self) -> None:
        """All tasks stand: no notices any more, and room above the limit for the few pages that an
        engine needs inside. `limit` stays what it is; `arm` and `disarm` enforce it again."""

    def disarm(self) -> None:
        """The kernel's own behaviour at the limit, and nothing else."""

    def fileno(self) -> int:
        """The descriptor to poll, -1 when not armed. It changes with every `arm`."""

    @property
    def poll_mask(self) -> int:
        """The epoll events to wait for."""

    def acknowledge(self) -> bool:
        """Take note of what made `fileno` ready; whether it was a crossing."""

    def freeze(self, timeout: float) -> bool:
        """Stop every task, children included; whether all stood within `timeout` seconds. False
        leaves the freezing under way: call `thaw`."""

    def thaw(self) -> None:
        """Let every task run."""

    def is_frozen(self) -> bool:
        """Whether its tasks are stopped, or being stopped."""

    def usage(self) -> int:
        """Bytes in use now: what `reading` says first, for less."""

    def reading(self) -> MemoryReading:
        """Memory now, and what it is."""

    def drop_cache(self, to: int) -> None:
        """Have the kernel drop page cache until usage is at most `to` bytes. The limit stands
        again afterwards, whatever happens."""

    def peak(self) -> int:
        """Highest usage since it was made, in bytes."""

    def oom_kills(self) -> int:
        """How many processes the kernel killed in it."""

    def processes(self) -> list[int]:
        """PIDs in it and in its children, as this process sees them."""

    def undo(self) -> Undo:
        """See Undo."""

    def remove(self) -> None:
        """Remove it and its children; it must have no process left. Fine when it is gone."""


class Runner(Protocol):
    """Something that runs a program inside a job's namespaces."""

    async def run(self, argv: Sequence[str], timeout: float) -> int:
        """Its exit status, 128+n for a death by signal n. Raises Transient on a time-out, after
        which the program is dead."""


@dataclass(frozen=True)
class StreamKey:
    """A standard stream of the job that lives outside of it: stream number, the engine's name for
    the object (`pipe:[123]`), so that another can be put in its place on resume.

    Of a file also `path`, open(2)'s `flags`, and the `offset` in bytes where the job left it.
    """

    stream: int
    key: str
    path: str = ""
    flags: int = 0
    offset: int = 0
    at_end: bool = True
    """Whether it was being written, and that was its end: others may have written more since."""


@dataclass(frozen=True)
class DumpRequest:
    """What an engine needs to write a frozen job down into `images`."""

    root_pid: int
    """PID of the job's first process as its own namespace numbers it."""
    images: Path
    freezer_path: str
    streams: Sequence[StreamKey] = ()
    connected: bool = False
    """Whether it has TCP connections, which must not move while they are written down."""
    lossy: bool = False
    """Whether connections that the job has not accepted yet may be left out."""
    timeout: float = 3600.0


class Engine(Protocol):
    """What writes processes down and brings them back."""

    async def dump(self, request: DumpRequest, runner: Runner) -> None:
        """Write the job to `request.images`; it stays frozen and whole. Raises CannotSave or
        Transient with the engine's own reason."""

    def restore_argv(self, images: Path, streams: Mapping[str, int]) -> list[str]:
        """The command that, run as a child of a job's PID 1, gives it the job as another child.
        `streams` maps each StreamKey.key to a descriptor."""

    def restore_room(self, images: Path) -> int:
        """Bytes that it holds in the job's cgroup, beside the job, while it brings it back."""

    def restore_error(self, images: Path) -> str:
        """Why the last restore from `images` failed, in the engine's words."""

    def fingerprint(self) -> Fingerprint:
        """Of this node."""


@dataclass(frozen=True)
class Draft:
    """A checkpoint that is being written: `images` is where the engine writes."""

    job: str
    number: int
    images: Path


@dataclass(frozen=True)
class Description:
    """What a checkpoint says of itself, beside its files."""

    job: str
    number: int
    incarnation: int
    owner: int
    created: float
    limit: int
    own: int
    """Bytes of `limit` that were the job's own: what it needs at least to come back."""
    root_pid: int
    pids: tuple[int, ...]
    """Every PID of the job in its own namespace."""
    fingerprint: Fingerprint
    streams: tuple[StreamKey, ...] = ()
    files: tuple[FileState, ...] = ()
    """Those that the job was writing; their copies are beside the images."""
    leading_out: tuple[Connection, ...] = ()
    """Connections that do not survive its release: their peers see them closed."""
    listeners: tuple[Listener, ...] = ()
    schedules: tuple[ThreadSchedule, ...] = ()


class Store(Protocol):
    """Where checkpoints are kept. Files are written once; nothing but `delete` deletes."""

    def room(self) -> int:
        """Bytes that a new checkpoint may take."""

    def begin(self, job: str) -> Draft:
        """A place for the next checkpoint of `job`. Raises Transient where none can be written."""

    def write_ahead(self, draft: Draft) -> None:
        """Begin to make durable what is there of it by now, so that `commit` finds less to do.
        Promises nothing, raises nothing, and may be called at any time."""

    def commit(self, draft: Draft, description: Description) -> Checkpoint:
        """Make it durable and whole; after this returns it survives a power cut. Blocking.
        Raises Transient."""

    def abandon(self, draft: Draft) -> None:
        """Forget a draft that came to nothing."""

    def open(self, job: str, number: int, *, verify: bool) -> tuple[Description, Path]:
        """Its description and images. Raises NotFound, or Damaged when anything differs from what
        was written (every byte is read when `verify`)."""

    def checkpoints(self, job: str) -> list[int]:
        """Numbers of the committed checkpoints of `job`, ascending."""

    def delete(self, job: str, number: int) -> None:
        """Remove one. Fine when it is gone."""


class Scheduler(Protocol):
    """Who gives memory to jobs."""

    def room(self, apart_from: Sequence[str] = ()) -> int:
        """Bytes that a job may be given now, beyond what others were promised. `apart_from`:
        cgroup directories whose own promise does not count."""

    def cap(self) -> int:
        """The largest limit that any job can ever have here, in bytes."""


class Journal(Protocol):
    """Everything that happened, in order. Writing never raises and never waits."""

    def job(self, job: Job) -> None:
        """Record a job as it now is."""

    def incarnation(self, incarnation: Incarnation) -> None:
        """Record an incarnation as it now is."""

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint as it now is."""

    def save(self, record: SaveRecord) -> None:
        """Record a save as it now is."""

    def event(self, job: str, kind: str, **data: object) -> None:
        """Append an event."""

    def samples(self, job: str, incarnation: int, samples: Sequence[Sample]) -> None:
        """Append samples."""

    def settle(self, timeout: float) -> bool:
        """Wait until all of the above is on disk; False when that did not happen in time."""
