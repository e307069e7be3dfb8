"""How verbs print: tables, times, sizes, JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import format_size


def write_json(data: object) -> None:
    """One document on standard output."""
    click.echo(json.dumps(data, indent=2))


def rfc3339(at: float | None) -> str | None:
    """A time as `2026-11-30T20:07:02.123Z`."""
    if at is None:
        return None
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def local_time(at: float | None) -> str:
    """A time for people, in their zone."""
    if at is None:
        return "-"
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def limit_bytes(limit: int | None) -> int | None:
    """A limit for JSON: None where there is none."""
    return None if limit is None or limit >= NO_LIMIT else limit


def size_or_none(limit: int | None) -> str:
    """A limit for people."""
    known = limit_bytes(limit)
    return "none" if known is None else format_size(known)


def shell_words(command: Sequence[str]) -> str:
    """A command line as one could type it, with nothing that a terminal would obey."""
    return printable(" ".join(shlex.quote(word) for word in command))


def printable(text: str) -> str:
    """A text of others as one line, with nothing that a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need to be, the last one as it is."""
    lines = [tuple(header), *(tuple(printable(cell) for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())
