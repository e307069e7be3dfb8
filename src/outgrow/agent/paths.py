"""Where things lie in the state directory."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from outgrow.core.errors import NotFound, OutgrowError, Unsupported, Usage
from outgrow.core.job import is_job_id

DEFAULT = Path("/var/lib/outgrow")
VARIABLE = "OUTGROW_STATE_DIR"


@dataclass(frozen=True)
class StateDir:
    """The journal, the store, and a run directory per job."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "journal.sqlite3"

    @property
    def store(self) -> Path:
        return self.root / "store"

    def run(self, job: str) -> Path:
        """What the living and the dead of a job leave for each other: see launcher/records.py."""
        if not is_job_id(job):
            raise NotFound(f"{job!r} is no job id")
        return self.root / "run" / job

    def make(self) -> None:
        """Make it, for its owner alone. Raises OutgrowError where that cannot be, or where others
        could write to it."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_owner(self.root.stat())
            for folder in (self.store, self.root / "run"):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise OutgrowError(
                f"the state directory {self.root} cannot be made or written ({error.strerror})",
                remedy="run as root, or name another one with --state-dir",
            ) from None

    def is_there(self) -> bool:
        """Whether it holds a journal. Raises Unsupported where this user cannot look, Usage where
        others could write to it: what it says is done with this user's rights."""
        try:
            status = self.root.stat()
            self.journal.stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Unsupported(
                f"reading {self.root} as this user ({error.strerror})", remedy="run as its owner"
            ) from None
        self._check_owner(status)
        return True

    def _check_owner(self, status: os.stat_result) -> None:
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Usage(
                f"the state directory {self.root} is not yours alone: what is restored from it"
                " runs with your rights",
                remedy=f"chown it to uid {os.geteuid()} and chmod it to 0700",
            )
