"""What a checkpoint says of itself: `manifest.json`, the last file to be written."""

from __future__ import annotations

from dataclasses import asdict

import msgspec
import msgspec.structs
from blake3 import blake3

from outgrow.core.connections import Connection, Listener
from outgrow.core.errors import Damaged
from outgrow.core.files import FileState
from outgrow.core.fingerprint import Fingerprint
from outgrow.core.scheduling import ThreadSchedule
from outgrow.ports import Description, StreamKey

FORMAT = 2


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file below `images/`: `size` in bytes, `blake3` in hexadecimal."""

    name: str
    size: int
    blake3: str


class StreamEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One outer stream: see ports.StreamKey."""

    stream: int
    key: str
    path: str
    flags: int
    offset: int
    at_end: bool


class WrittenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file that the job was writing: see core.files.FileState."""

    path: str
    inode: int
    size: int
    modified: int
    mode: int
    grows: bool
    shared: bool
    mapped: bool
    stream: bool
    absent: bool
    temporary: bool
    copy: str


class _Version(msgspec.Struct, frozen=True):
    """What every version of the document begins with."""

    format: int


class ConnectionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One connection: see core.connections.Connection."""

    local: str
    local_port: int
    remote: str
    remote_port: int


class ListenerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One address: see core.connections.Listener."""

    address: str
    port: int


class ScheduleEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thread: see core.scheduling.ThreadSchedule."""

    tid: int
    cpus: tuple[int, ...]
    io_priority: int | None
    timer_slack: int | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document. `created` in seconds since the epoch, sizes in bytes."""

    format: int
    job: str
    number: int
    incarnation: int
    owner: int
    created: float
    limit: int
    own: int
    root_pid: int
    pids: list[int]
    architecture: str
    kernel: str
    engine: str
    cpu_features: list[str]
    streams: list[StreamEntry]
    written: list[WrittenEntry]
    leading_out: list[ConnectionEntry]
    listeners: list[ListenerEntry]
    schedules: list[ScheduleEntry]
    files: list[FileEntry]
    blake3: str
    """Of the document itself, with this field empty: what the rest says is what was written."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files)


def encode(description: Description, files: list[FileEntry]) -> bytes:
    """The document for a checkpoint of these files."""
    fingerprint = description.fingerprint
    manifest = Manifest(
        format=FORMAT,
        job=description.job,
        number=description.number,
        incarnation=description.incarnation,
        owner=description.owner,
        created=description.created,
        limit=description.limit,
        own=description.own,
        root_pid=description.root_pid,
        pids=list(description.pids),
        architecture=fingerprint.architecture,
        kernel=fingerprint.kernel,
        engine=fingerprint.engine,
        cpu_features=sorted(fingerprint.cpu_features),
        streams=[StreamEntry(**asdict(stream)) for stream in description.streams],
        written=[WrittenEntry(**asdict(state)) for state in description.files],
        leading_out=[ConnectionEntry(**asdict(one)) for one in description.leading_out],
        listeners=[ListenerEntry(**asdict(one)) for one in description.listeners],
        schedules=[ScheduleEntry(**asdict(one)) for one in description.schedules],
        files=sorted(files, key=lambda entry: entry.name),
        blake3="",
    )
    manifest = msgspec.structs.replace(manifest, blake3=_digest(manifest))
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(data: bytes) -> Manifest:
    """Read a document. Raises Damaged for one that was not written by `encode`."""
    try:
        version = msgspec.json.decode(data, type=_Version).format
        manifest = msgspec.json.decode(data, type=Manifest) if version == FORMAT else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the checkpoint's manifest cannot be read ({error})") from None
    if manifest is None:
        raise Damaged(
            f"the checkpoint has format {version}, this outgrow reads {FORMAT}",
            preserved="it is kept as it is",
            remedy="use the outgrow that wrote it",
        )
    copies = [written.copy for written in manifest.written if written.copy]
    for name in (*(entry.name for entry in manifest.files), *copies):
        if "/" in name or name in ("", ".", "..") or "\0" in name:
            raise Damaged(f"the checkpoint names a file outside of itself: {name!r}")
    return manifest


def is_whole(manifest: Manifest) -> bool:
    """Whether the document says what was written."""
    return manifest.blake3 == _digest(msgspec.structs.replace(manifest, blake3=""))


def _digest(manifest: Manifest) -> str:
    return blake3(msgspec.json.encode(manifest)).hexdigest()


def describe(manifest: Manifest) -> Description:
    """The same as the rest of outgrow knows it."""
    return Description(
        job=manifest.job,
        number=manifest.number,
        incarnation=manifest.incarnation,
        owner=manifest.owner,
        created=manifest.created,
        limit=manifest.limit,
        own=manifest.own,
        root_pid=manifest.root_pid,
        pids=tuple(manifest.pids),
        fingerprint=Fingerprint(
            manifest.architecture,
            manifest.kernel,
            manifest.engine,
            frozenset(manifest.cpu_features),
        ),
        streams=tuple(StreamKey(**msgspec.structs.asdict(entry)) for entry in manifest.streams),
        listeners=tuple(Listener(**msgspec.structs.asdict(entry)) for entry in manifest.listeners),
        schedules=tuple(
            ThreadSchedule(**msgspec.structs.asdict(entry)) for entry in manifest.schedules
        ),
        leading_out=tuple(
            Connection(**msgspec.structs.asdict(entry)) for entry in manifest.leading_out
        ),
        files=tuple(FileState(**msgspec.structs.asdict(entry)) for entry in manifest.written),
    )
