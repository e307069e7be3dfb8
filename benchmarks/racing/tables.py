"""What the race has shown: tables for people, and goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import frame
from frame import Goal, Row

from racing.cases import STREAMS, Way

LATENCY = 10.0
"""Milliseconds from the crossing to the last task's standstill, for 99 of 100."""
_HEADS = (
    "growth",
    "pages",
    "proc.",
    "runs",
    "GB/s",
    "to frozen, ms: p50",
    "worst",
    "overshoot, MiB",
    "at limit",
    "saved",
    "killed",
    "right answer",
    "false alarms",
)


def goals(rows: Sequence[Row], *, timed: bool) -> list[Goal]:
    """What was to be shown. Without `timed`, which emulation is not fit for, no times."""
    ours = [row for row in rows if row["way"] in (Way.GUARD, Way.OUTGROW)]
    growing = [row for row in ours if row["saved"] is not None or grows(row)]
    saved = 100 * sum(bool(row["saved"]) for row in growing) / len(growing) if growing else None
    right = 100 * sum(bool(row["right"]) for row in ours) / len(ours) if ours else None
    times = [
        row["crossing_to_frozen_ms"] for row in ours if row["crossing_to_frozen_ms"] is not None
    ]
    latency = frame.at_most(
        "crossing to frozen, 99th percentile, ms", frame.percentile(times, 99), LATENCY
    )
    return [
        frame.at_least("saved, %", saved, 100),
        frame.exactly("killed", sum(row["killed"] for row in ours), 0),
        frame.at_least("right answer, %", right, 100),
        frame.exactly("false alarms", sum(row["false_alarm"] for row in ours), 0),
        *([latency] if timed else []),
    ]


def grows(row: Row) -> bool:
    """Whether the row's job outgrows its limit."""
    return row["kind"] not in (*STREAMS, "file")


def show(report: frame.Report, footer: str) -> str:
    """All tables."""
    parts = []
    for way in Way:
        rows = [row for row in report.rows if row["way"] == way]
        if rows:
            parts += [_TITLES[way], "", frame.table(_HEADS, _lines(rows)), ""]
    notes = _notes(report.rows)
    if notes:
        parts += ["What went otherwise, or is worth a word:", "", *notes, ""]
    return "\n".join([*parts, frame.goal_table(report.goals), "", footer])


_TITLES = {
    Way.GUARD: "Under the guard",
    Way.OUTGROW: "The same with the whole product: outgrow run --on-limit move",
    Way.KERNEL: "The kernel alone",
    Way.EARLYOOM: "The kernel, and earlyoom beside it",
}


def _lines(rows: Iterable[Row]) -> list[list[str]]:
    def key(row: Row) -> tuple[str, str, int]:
        return row["kind"], row["pages"], row["processes"]

    order = {kind: place for place, kind in enumerate(dict.fromkeys(row["kind"] for row in rows))}
    ordered = sorted(rows, key=lambda row: (order[row["kind"]], *key(row)[1:]))
    return [_line(list(group)) for _, group in groupby(ordered, key)]


def _line(rows: list[Row]) -> list[str]:
    first = rows[0]
    times = _values(rows, "crossing_to_frozen_ms")
    judged = [row for row in rows if row["saved"] is not None]
    answered = [row for row in rows if row["right"] is not None]
    expected = [row for row in rows if grows(row)]
    held = sum(row["held"] for row in rows)
    return [
        first["kind"],
        first["pages"],
        str(first["processes"]),
        str(len(rows)),
        frame.number(max(_values(rows, "gb_per_second"), default=None)),
        frame.number(frame.percentile(times, 50)),
        frame.number(max(times, default=None)),
        frame.number(max(_values(rows, "overshoot_mib"), default=None)),
        str(sum(bool(row["at_limit"]) for row in rows)) if judged else "-",
        f"{sum(bool(row['saved']) for row in rows)}/{len(expected)}" if expected else "-",
        str(sum(row["killed"] or 0 for row in rows)) if answered else "-",
        f"{sum(bool(row['right']) for row in answered)}/{len(answered)}" if answered else "-",
        f"{sum(row['false_alarm'] for row in rows)}" + (f" (held {held}×)" if held else ""),
    ]


def _values(rows: Iterable[Row], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def _notes(rows: Sequence[Row]) -> list[str]:
    """One line for each kind of which a run went otherwise than wanted, with the slowest."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if _is_worth_a_word(row):
            found.setdefault(f"{row['way']}: {row['kind']}, {row['pages']}", []).append(row)
    lines = []
    for what, told in found.items():
        slowest = max(told, key=lambda row: row["crossing_to_frozen_ms"] or 0)
        count = f" in {len(told)} runs, such as" if len(told) > 1 else ""
        lines.append(f"  {what}{count} {_name(slowest)}: {_what(slowest)}")
    return lines


def _is_worth_a_word(row: Row) -> bool:
    if row["way"] not in (Way.GUARD, Way.OUTGROW):
        return bool(row["note"])
    slow = (row["crossing_to_frozen_ms"] or 0) > LATENCY
    return slow or not row["right"] or row["false_alarm"] or (grows(row) and not row["saved"])


def _name(row: Row) -> str:
    rate = row["rate_gb_per_second"]
    limit = row["limit_bytes"] >> 20
    return f"× {row['processes']}, {f'{rate:g} GB/s' if rate else 'full speed'}, limit {limit} MiB"


def _what(row: Row) -> str:
    words = []
    if (row["crossing_to_frozen_ms"] or 0) > LATENCY:
        words.append(
            f"frozen after {row['crossing_to_frozen_ms']:.1f} ms"
            f" ({row['event_to_frozen_ms']:.1f} ms after the event;"
            f" last step after {row['crossing_to_last_step_ms']:.1f} ms)"
        )
    if row["false_alarm"]:
        words.append("false alarm")
    if not row["right"] and row["right"] is not None:
        words.append("no right answer")
    return ", ".join([*words, *([row["note"]] if row["note"] else [])])
