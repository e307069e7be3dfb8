"""The journal's tables and their versions. Times are seconds since the epoch, sizes bytes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from outgrow.core.errors import OutgrowError

VERSION = 1

_TABLES = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    document TEXT NOT NULL      -- the job as JSON
) STRICT;
CREATE INDEX jobs_by_name ON jobs (name, created);
CREATE TABLE incarnations (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT;
CREATE TABLE checkpoints (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT;
CREATE TABLE saves (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    started REAL NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (job, started)
) STRICT;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_job ON events (job, sequence);
CREATE TABLE samples (
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    incarnation INTEGER NOT NULL,
    at REAL NOT NULL,
    usage INTEGER NOT NULL,
    memory_limit INTEGER NOT NULL
) STRICT;
CREATE INDEX samples_by_job ON samples (job, at);
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the journal, making it when it is not there. Raises OutgrowError for one that a newer
    outgrow made, or that is no journal."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise broken(error) from None
    try:
        path.chmod(0o600)
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        version = _version_of(connection)
        if version == 0:  # only then: whoever reads must not wait for a writer that hangs
            version = _make(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise broken(error) from None
    if version > VERSION:
        connection.close()
        raise OutgrowError(
            f"the journal {path} was made by a newer outgrow (version {version})",
            remedy="use that one, or another --state-dir",
        )
    return connection


def broken(error: sqlite3.Error) -> OutgrowError:
    """What to say of a journal that cannot be used."""
    return OutgrowError(
        f"the journal cannot be opened or read ({error})",
        preserved="jobs and checkpoints are not touched",
        remedy="free room, try again, or move journal.sqlite3 away to begin a new one",
    )


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _make(connection: sqlite3.Connection) -> int:
    connection.execute("BEGIN IMMEDIATE")
    if _version_of(connection) == 0:  # nobody else made them meanwhile
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
    return _version_of(connection)
