"""Writing the journal without ever waiting for it."""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.core.sample import Sample
from outgrow.journal import documents
from outgrow.journal.schema import connect

_Statement = tuple[str, tuple[object, ...]]
_RETRY = 1.0


class JournalWriter:
    """The Journal port. One thread writes what it is given, in order; a journal that is full or
    locked keeps it trying, and nobody else notices. Raises OutgrowError when it cannot be opened.

    `complain` is called once with the reason when writing begins to fail.
    """

    def __init__(self, path: Path, complain: Callable[[str], None] = lambda _: None) -> None:
        self._connection = connect(path)
        self._complain = complain
        self._queue: queue.SimpleQueue[_Statement | threading.Event | None] = queue.SimpleQueue()
        self._failing = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def job(self, job: Job) -> None:
        self._put(
            "INSERT INTO jobs VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " state = excluded.state, document = excluded.document",
            job.id, job.name, job.state.value, job.created, documents.encode(job),
        )  # fmt: skip

    def incarnation(self, incarnation: Incarnation) -> None:
        self._put(
            "INSERT OR REPLACE INTO incarnations VALUES (?, ?, ?)",
            incarnation.job, incarnation.number, documents.encode(incarnation),
        )  # fmt: skip

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self._put(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)",
            checkpoint.job, checkpoint.number, documents.encode(checkpoint),
        )  # fmt: skip

    def save(self, record: SaveRecord) -> None:
        self._put(
            "INSERT OR REPLACE INTO saves VALUES (?, ?, ?)",
            record.job, record.started, documents.encode(record),
        )  # fmt: skip

    def event(self, job: str, kind: str, **data: object) -> None:
        self._put(
            "INSERT INTO events (job, at, kind, data) VALUES (?, ?, ?, ?)",
            job, time.time(), kind, json.dumps(data, default=repr),
        )  # fmt: skip

    def samples(self, job: str, incarnation: int, samples: Sequence[Sample]) -> None:
        for sample in samples:
            self._put(
                "INSERT INTO samples VALUES (?, ?, ?, ?, ?)",
                job, incarnation, sample.at, sample.usage, sample.limit,
            )  # fmt: skip

    def settle(self, timeout: float) -> bool:
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Write what is left, as far as that is possible in time."""
        self._queue.put(None)
        self._thread.join(timeout)

    def _put(self, sql: str, *values: object) -> None:
        self._queue.put((sql, values))

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            self._write([item for item in batch if isinstance(item, tuple)])
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()
            if None in batch:
                self._connection.close()
                return

    def _write(self, statements: list[_Statement]) -> None:
        while statements:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                for sql, values in statements:
                    self._execute(sql, values)
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self._connection.in_transaction:
                    self._connection.rollback()
                if not self._failing:
                    self._failing = True
                    self._complain(f"the journal cannot be written ({error}); the job runs on")
                time.sleep(_RETRY)
            else:
                self._failing = False
                return

    def _execute(self, sql: str, values: tuple[object, ...]) -> None:
        try:
            self._connection.execute(sql, values)
        except sqlite3.IntegrityError:
            return  # the job was forgotten meanwhile; there is nowhere to write this
