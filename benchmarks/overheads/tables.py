"""What the runs have shown: tables for people, and goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median, quantiles

import frame
from frame import Goal, Row

from overheads.cases import Way

BOUND = 0.5
"""Percent that a job may be slower."""
_HEADS = (
    *("work", "runs", "alone, s", "limit alone, s", "outgrow, s"),
    *("slower than alone, %", "quartiles", "than limit alone, %", "quartiles"),
    *("processor time, %", "start and end, ms"),
)
_MEMORY_HEADS = ("process", "PSS, MiB", "of its own, MiB", "resident, MiB")


def goals(rows: Sequence[Row]) -> list[Goal]:
    """What was to be shown, of each kind of work."""
    kinds = dict.fromkeys(row["kind"] for row in rows if "kind" in row)
    found = []
    for kind in kinds:
        for way in (Way.LIMITED, Way.ALONE):
            slower = middle(slower_by([row for row in rows if row.get("kind") == kind], way))
            found.append(frame.at_most(f"{kind}: slower than {way}, %", slower, BOUND))
    saves = sum(row["saves"] or 0 for row in rows if "kind" in row)
    failed = sum(bool(row["note"]) for row in rows if "kind" in row)
    return [
        *found,
        frame.exactly("saves, of which there is no need", saves, 0),
        frame.exactly("jobs that failed", failed, 0),
    ]


def show(report: frame.Report, footer: str) -> str:
    """All tables."""
    worked = [row for row in report.rows if "kind" in row]
    order = list(dict.fromkeys(row["kind"] for row in worked))
    ordered = sorted(worked, key=lambda row: order.index(row["kind"]))
    groups = [list(group) for _, group in groupby(ordered, lambda row: str(row["kind"]))]
    around = [row for row in report.rows if "process" in row]
    notes = [f"  {row['way']}: {row['kind']}: {row['note']}" for row in worked if row["note"]]
    goals_table = frame.table(
        ("goal", "value", "wanted", "met"),
        [
            (goal.name, frame.number(goal.value, 2), goal.goal, "yes" if goal.met else "NO")
            for goal in report.goals
        ],
    )
    parts = [
        *("The same work three times, while nothing happens", ""),
        *(frame.table(_HEADS, map(_line, groups)), ""),
        *("Memory of the processes around one job", ""),
        *(frame.table(_MEMORY_HEADS, _memory_lines(around)), ""),
        *(["What went otherwise:", "", *notes, ""] if notes else []),
    ]
    return "\n".join([*parts, goals_table, "", footer])


def slower_by(rows: Iterable[Row], way: Way, field: str = "seconds") -> list[float]:
    """Percent by which the work took longer under outgrow than in that way, for each repetition
    in which both were measured."""
    times: dict[int, dict[str, float]] = {}
    for row in rows:
        if row[field] is not None:
            times.setdefault(row["repetition"], {})[row["way"]] = row[field]
    return [
        100 * (both[Way.OUTGROW] / both[way] - 1)
        for both in times.values()
        if Way.OUTGROW in both and way in both
    ]


def middle(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return median(values) if values else None


def quartiles(values: Sequence[float]) -> str:
    """Between which the middle half lies."""
    if len(values) < 2:
        return "-"
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{low:+.1f} to {high:+.1f}"


def _line(rows: list[Row]) -> list[str]:
    seconds = [
        middle([row["seconds"] for row in rows if row["way"] == way and row["seconds"] is not None])
        for way in Way
    ]
    cells = [
        rows[0]["kind"],
        str(len({row["repetition"] for row in rows})),
        *(frame.number(value, 3) for value in seconds),
    ]
    for way in (Way.ALONE, Way.LIMITED):
        slower = slower_by(rows, way)
        cells += [frame.number(middle(slower), 2), quartiles(slower)]
    processor = middle(slower_by(rows, Way.LIMITED, "processor_seconds"))
    return [*cells, frame.number(processor, 2), frame.number(_around(rows), 0)]


def _around(rows: list[Row]) -> float | None:
    """Milliseconds that `outgrow run` takes before and after the work, beyond what the same command
    takes alone."""
    extra = {
        way: [
            row["whole_seconds"] - row["seconds"]
            for row in rows
            if row["way"] == way and row["seconds"] is not None
        ]
        for way in (Way.OUTGROW, Way.ALONE)
    }
    ours, alone = middle(extra[Way.OUTGROW]), middle(extra[Way.ALONE])
    return None if ours is None or alone is None else 1e3 * (ours - alone)


def _memory_lines(rows: list[Row]) -> list[list[str]]:
    names = ("pss_bytes", "private_bytes", "rss_bytes")
    lines = [[row["process"], *(_mib(row[name]) for name in names)] for row in rows]
    if len(rows) > 1:
        lines.append(["together", *(_mib(sum(row[name] for row in rows)) for name in names)])
    return lines


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
