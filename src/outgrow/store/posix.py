"""Checkpoints in a directory: the plain first form.

    ROOT/JOB/N.partial/images/…      being written
    ROOT/JOB/N/images/…              committed: complete, synced, and renamed into place
    ROOT/JOB/N/manifest.json         what it holds, with sizes and hashes

Directories have mode 0700 and belong to whoever runs outgrow: an image is a job's memory, and
restoring one runs its code.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blake3 import blake3

from outgrow import libc
from outgrow.core.errors import Damaged, NotFound, OutgrowError, Transient
from outgrow.core.job import Checkpoint, is_job_id
from outgrow.ports import Description, Draft
from outgrow.store import manifest as documents

_PARTIAL = ".partial"
_IMAGES = "images"
_MANIFEST = "manifest.json"
_WRITERS = 4


class PosixStore:
    """The Store port over a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def room(self) -> int:
        try:
            status = os.statvfs(self.root)
        except OSError as error:
            raise Transient(
                f"the store {self.root} cannot be used ({error.strerror})",
                preserved="the job runs on",
            ) from None
        return status.f_bavail * status.f_frsize

    def begin(self, job: str) -> Draft:
        folder = self._folder(job)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = max([0, *self.checkpoints(job), *self._partials(folder)]) + 1
            images = folder / f"{number}{_PARTIAL}" / _IMAGES
            images.parent.mkdir(mode=0o700)
            images.mkdir(mode=0o700)
        except OSError as error:
            raise Transient(
                f"the store {self.root} cannot be written ({error.strerror})",
                preserved="the job runs on",
                remedy="see that it has room and is writable",
            ) from None
        return Draft(job, number, images)

    def write_ahead(self, draft: Draft) -> None:
        try:
            for path in draft.images.iterdir():
                _opened(path, libc.start_writing)
        except OSError:
            pass  # the draft is gone, or the filesystem cannot: `commit` does it all

    def commit(self, draft: Draft, description: Description) -> Checkpoint:
        partial = draft.images.parent
        final = self._folder(draft.job) / str(draft.number)
        try:
            images = sorted(draft.images.iterdir())
            with ThreadPoolExecutor(_WRITERS) as pool:  # the disk writes while the cores hash
                syncs = [pool.submit(_sync, path) for path in images]
                files = list(pool.map(_entry_of, images))
                for sync in syncs:
                    sync.result()
            document = documents.encode(description, files)
            _write_synced(partial / _MANIFEST, document)
            for folder in (draft.images, partial):
                _sync(folder)
            partial.rename(final)
            _sync(final.parent)
        except OSError as error:
            raise Transient(
                f"the checkpoint could not be made durable ({error.strerror})",
                preserved="the job runs on",
                remedy="see that the store has room and is writable",
            ) from None
        size = sum(entry.size for entry in files)
        return Checkpoint(draft.job, draft.number, description.incarnation, size, time.time())

    def abandon(self, draft: Draft) -> None:
        shutil.rmtree(draft.images.parent, ignore_errors=True)

    def open(self, job: str, number: int, *, verify: bool) -> tuple[Description, Path]:
        folder = self._folder(job) / str(number)
        if not os.path.lexists(folder):
            raise NotFound(f"there is no checkpoint {number} of job {job}")
        try:
            for directory in (folder, folder.parent, folder / _IMAGES):
                self._check_owner(directory)
        except OSError as error:
            raise Damaged(f"the checkpoint cannot be read ({error.strerror})") from None
        try:
            manifest = documents.decode((folder / _MANIFEST).read_bytes())
            images = folder / _IMAGES
            if (manifest.job, manifest.number) != (job, number):
                raise Damaged("the checkpoint's manifest is that of another checkpoint")
            present = {path.name for path in images.iterdir()}
            with ThreadPoolExecutor(_WRITERS) as pool:
                for _ in pool.map(lambda entry: _check(images, entry, verify), manifest.files):
                    pass
        except OSError as error:
            raise Damaged(f"the checkpoint cannot be read ({error.strerror})") from None
        except OutgrowError as error:
            error.message = f"checkpoint {number} of job {job}: {error.message}"
            error.preserved = "nothing of it was used; it is left as it is"
            raise
        extra = sorted(present - {entry.name for entry in manifest.files} - _ENGINE_LOGS)
        if extra:
            raise Damaged(
                f"checkpoint {number} of job {job} holds a file that was not saved: {extra[0]!r}",
                preserved="nothing of it was used; it is left as it is",
            )
        if not documents.is_whole(manifest):
            raise Damaged(
                f"checkpoint {number} of job {job}: its manifest is not what was written",
                preserved="nothing of it was used; it is left as it is",
            )
        return documents.describe(manifest), images

    def checkpoints(self, job: str) -> list[int]:
        folder = self._folder(job)
        if not folder.is_dir():
            return []
        return sorted(int(path.name) for path in folder.iterdir() if _is_number(path.name))

    def delete(self, job: str, number: int) -> None:
        folder = self._folder(job) / str(number)
        doomed = folder.with_name(f"{number}{_PARTIAL}")
        try:
            # First under another name: one that is half deleted must never look whole.
            folder.rename(doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed, ignore_errors=True)

    def sweep(self, job: str) -> None:
        """Remove what was never finished. Only while nothing of the job is being written."""
        folder = self._folder(job)
        for number in self._partials(folder) if folder.is_dir() else ():
            shutil.rmtree(folder / f"{number}{_PARTIAL}", ignore_errors=True)

    def forget(self, job: str) -> None:
        """Remove everything of the job."""
        shutil.rmtree(self._folder(job), ignore_errors=True)

    def _folder(self, job: str) -> Path:
        if not is_job_id(job):
            raise NotFound(f"{job!r} is no job id")
        return self.root / job

    def _partials(self, folder: Path) -> list[int]:
        names = [path.name.removesuffix(_PARTIAL) for path in folder.glob(f"*{_PARTIAL}")]
        return [int(name) for name in names if _is_number(name)]

    def _check_owner(self, folder: Path) -> None:
        """Restoring runs what an image says, as root: it must be a real directory of ours that
        nobody else can have written to."""
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise Damaged(f"{folder} is not a directory of uid {os.geteuid()}")
        if status.st_mode & 0o022:
            raise Damaged(f"{folder} can be written by others", remedy="chmod it to 0700")


_ENGINE_LOGS = frozenset({"restore.log", "stats-restore"})
"""What the engine adds beside the images when it restores."""


def _entry_of(path: Path) -> documents.FileEntry:
    size = path.lstat().st_size
    hasher = blake3(max_threads=blake3.AUTO)
    if size:
        hasher.update_mmap(path)
    return documents.FileEntry(path.name, size, hasher.hexdigest())


def _sync(path: Path) -> None:
    _opened(path, os.fsync)


def _opened(path: Path, act: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        act(descriptor)
    finally:
        os.close(descriptor)


def _check(images: Path, entry: documents.FileEntry, verify: bool) -> None:
    path = images / entry.name
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise Damaged(f"{entry.name} is missing") from None
    if not stat.S_ISREG(status.st_mode):
        raise Damaged(f"{entry.name} is not a file")
    if status.st_size != entry.size:
        raise Damaged(f"{entry.name} has {status.st_size} bytes instead of {entry.size}")
    if verify and entry.size:
        digest = blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()
        if digest != entry.blake3:
            raise Damaged(f"{entry.name} is not what was written")


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
