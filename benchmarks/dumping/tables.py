"""What the saves and resumes have shown: tables for people, and goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import frame
from frame import Goal, Row

from dumping.cases import Way
from dumping.ours import STEPS

SAVE_BOUND = 1.10
RESUME_BOUND = 1.15
_SAVE_HEADS = (
    *("memory", "kind", "runs", "outgrow, s", "criu, s", "criu + fsync, s", "write + fsync, s"),
    *("× criu", "× criu + fsync", "× write + fsync"),
)
_RESUME_HEADS = (
    *("memory", "kind", "runs", "move, s", "criu, s", "read, s", "× criu", "× read"),
    *("outgrow resume, s", "× criu", "× read"),
)
_STEP_HEADS = (
    *("memory", "kind", "images, MiB", "freeze, ms", "dump, s", "commit, s", "release, s"),
    "resume of a move, s",
)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """What was to be shown; each is the highest of the ratios of all sizes and kinds."""
    right = [row["right"] for row in rows]
    ratios = [
        frame.at_most(
            "save: × criu dump, which makes nothing durable",
            _worst(rows, ("save_seconds", Way.OUTGROW), ("save_seconds", Way.CRIU)),
            SAVE_BOUND,
        ),
        frame.at_most(
            "save: × criu dump and fsync of its images",
            _worst(rows, ("save_seconds", Way.OUTGROW), ("durable_seconds", Way.CRIU)),
            SAVE_BOUND,
        ),
        frame.at_most(
            "resume of a move: × criu restore",
            _worst(rows, ("resume_seconds", Way.OUTGROW), ("resume_seconds", Way.CRIU)),
            RESUME_BOUND,
        ),
        frame.at_most(
            "outgrow resume, every byte verified: × criu restore",
            _worst(rows, ("verified_resume_seconds", Way.OUTGROW), ("resume_seconds", Way.CRIU)),
            RESUME_BOUND,
        ),
    ]
    share = 100 * sum(map(bool, right)) / len(right) if right else None
    return [*ratios, frame.at_least("memory as it was, %", share, 100)]


def show(report: frame.Report, footer: str) -> str:
    """All tables."""
    groups = by_case(report.rows)
    parts = [
        *("From the freeze to the memory's release", ""),
        *(frame.table(_SAVE_HEADS, map(_save_line, groups)), ""),
        *("From the release, or the command, to the job's first sign of life", ""),
        *(frame.table(_RESUME_HEADS, map(_resume_line, groups)), ""),
        *("Where outgrow's time goes, as its journal tells it", ""),
        *(frame.table(_STEP_HEADS, map(_step_line, groups)), ""),
    ]
    notes = [
        f"  {row['way']}: {_size(row)} of {row['kind']}: {row['note']}"
        for row in report.rows
        if row["note"]
    ]
    if notes:
        parts += ["What went otherwise:", "", *notes, ""]
    goals_table = frame.table(
        ("goal", "value", "wanted", "met"),
        [
            (goal.name, frame.number(goal.value, 2), goal.goal, "yes" if goal.met else "NO")
            for goal in report.goals
        ],
    )
    return "\n".join([*parts, goals_table, "", footer])


def by_case(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each size and kind, the smallest first."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["bytes"], row["kind"]), []).append(row)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], key[1] == "random"))]


def middle(rows: Iterable[Row], name: str, way: Way) -> float | None:
    """The median of what was measured; None when nothing was."""
    values = [row[name] for row in rows if row["way"] == way and row[name] is not None]
    return median(values) if values else None


def ratio(one: float | None, other: float | None) -> float | None:
    """None where one of them was not measured."""
    return one / other if one is not None and other else None


def _worst(rows: Sequence[Row], one: tuple[str, Way], other: tuple[str, Way]) -> float | None:
    found = [ratio(middle(group, *one), middle(group, *other)) for group in by_case(rows)]
    # A size of which one side is missing was not shown to meet the goal.
    return None if None in found else max((value for value in found if value), default=None)


def _save_line(rows: list[Row]) -> list[str]:
    ours = middle(rows, "save_seconds", Way.OUTGROW)
    others = [
        middle(rows, "save_seconds", Way.CRIU),
        middle(rows, "durable_seconds", Way.CRIU),
        middle(rows, "durable_seconds", Way.PLAIN),
    ]
    seconds = [frame.number(value, 2) for value in (ours, *others)]
    return [*_name(rows), *seconds, *(frame.number(ratio(ours, other), 2) for other in others)]


def _resume_line(rows: list[Row]) -> list[str]:
    moved = middle(rows, "resume_seconds", Way.OUTGROW)
    verified = middle(rows, "verified_resume_seconds", Way.OUTGROW)
    others = [middle(rows, "resume_seconds", way) for way in (Way.CRIU, Way.PLAIN)]
    cells = [moved, *others, *(ratio(moved, other) for other in others)]
    cells += [verified, *(ratio(verified, other) for other in others)]
    return [*_name(rows), *(frame.number(value, 2) for value in cells)]


def _step_line(rows: list[Row]) -> list[str]:
    told = [row for row in rows if row["way"] == Way.OUTGROW and row["journal"]]
    steps = {
        step: median(row["journal"][place] for row in told) if told else None
        for place, step in enumerate(STEPS)
    }
    # Only a move resumes: the other save's journal says 0.
    resumed = [row["journal"][STEPS.index("resume")] for row in told if row["resume_seconds"]]
    freeze = steps["freeze"]
    images = middle(rows, "image_bytes", Way.OUTGROW)
    return [
        *_name(rows)[:2],
        frame.number(None if images is None else round(images / (1 << 20))),
        frame.number(None if freeze is None else freeze * 1e3),
        *(frame.number(steps[step], 2) for step in ("dump", "commit", "release")),
        frame.number(median(resumed) if resumed else None, 2),
    ]


def _name(rows: list[Row]) -> list[str]:
    runs = len({row["repetition"] for row in rows})
    return [_size(rows[0]), rows[0]["kind"], str(runs)]


def _size(row: Row) -> str:
    return f"{row['bytes'] / (1 << 30):g} GiB"
