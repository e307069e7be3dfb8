"""Reading the journal."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outgrow.core.errors import NotFound, Usage
from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.core.sample import Sample
from outgrow.journal import documents
from outgrow.journal.schema import broken, connect


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: `at` in seconds since the epoch."""

    at: float
    kind: str
    data: dict[str, Any]


class JournalReader:
    """A view of the journal at `path`."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def jobs(self) -> list[Job]:
        """All jobs, oldest first."""
        rows = self._rows("SELECT document FROM jobs ORDER BY created")
        return [documents.decode_job(document) for (document,) in rows]

    def find(self, text: str) -> Job:
        """The job that a user means by `text`: an id, a name (the newest of it), `last`, or an
        unambiguous beginning of an id. Raises NotFound, or Usage when several begin so."""
        nowhere = NotFound(f"there is no job {text!r}", remedy="`outgrow ps --all` lists them")
        if not text or "\0" in text or not _is_utf8(text):
            raise nowhere
        for sql in (
            "SELECT document FROM jobs WHERE id = ?1",
            "SELECT document FROM jobs WHERE name = ?1 ORDER BY created DESC LIMIT 1",
            "SELECT document FROM jobs WHERE ?1 = 'last' ORDER BY created DESC LIMIT 1",
        ):
            found = self._rows(sql, (text,))
            if found:
                return documents.decode_job(found[0][0])
        rows = self._rows(
            "SELECT document FROM jobs WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2",
            (text,),
        )
        if len(rows) > 1:
            raise Usage(f"several jobs begin with {text!r}", remedy="give more of the id")
        if not rows:
            raise nowhere
        return documents.decode_job(rows[0][0])

    def incarnations(self, job: str) -> list[Incarnation]:
        """In order."""
        rows = self._rows("SELECT document FROM incarnations WHERE job = ? ORDER BY number", (job,))
        return [documents.decode_incarnation(document) for (document,) in rows]

    def checkpoints(self, job: str) -> list[Checkpoint]:
        """In order, those that were deleted since included."""
        rows = self._rows("SELECT document FROM checkpoints WHERE job = ? ORDER BY number", (job,))
        return [documents.decode_checkpoint(document) for (document,) in rows]

    def saves(self, job: str) -> list[SaveRecord]:
        """In order."""
        rows = self._rows("SELECT document FROM saves WHERE job = ? ORDER BY started", (job,))
        return [documents.decode_save(document) for (document,) in rows]

    def events(self, job: str) -> list[Event]:
        """In order."""
        rows = self._rows(
            "SELECT at, kind, data FROM events WHERE job = ? ORDER BY sequence", (job,)
        )
        return [Event(at, kind, json.loads(data)) for at, kind, data in rows]

    def samples(self, job: str) -> list[Sample]:
        """In order of time."""
        rows = self._rows(
            "SELECT at, usage, memory_limit FROM samples WHERE job = ? ORDER BY at", (job,)
        )
        return [Sample(at, usage, limit) for at, usage, limit in rows]

    def last_heard(self, job: str) -> float | None:
        """When anything was last written down of it, in seconds since the epoch."""
        rows = self._rows(
            "SELECT max(at) FROM (SELECT at FROM events WHERE job = ?1"
            " UNION ALL SELECT at FROM samples WHERE job = ?1)",
            (job,),
        )
        at: float | None = rows[0][0]
        return at

    def forget(self, job: str) -> None:
        """Remove everything of the job."""
        self._rows("DELETE FROM jobs WHERE id = ?", (job,))

    def _rows(self, sql: str, values: tuple[object, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise broken(error) from None


def _is_utf8(text: str) -> bool:
    """Whether it is a text at all: arguments that are not valid UTF-8 hold lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
