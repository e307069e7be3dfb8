"""The row of one race."""

from __future__ import annotations

from frame import Row

from racing.cases import Case


def new_row(case: Case, version: int) -> Row:
    """What is known before the race; the rest is null until it is measured."""
    return {
        "way": str(case.way),
        "cgroup": version,
        "kind": case.kind,
        "pages": "2 MiB" if case.huge else "4 KiB",
        "processes": case.processes,
        "rate_gb_per_second": case.rate or None,
        "limit_bytes": case.limit,
        "band_bytes": case.band,
        "own_bytes": case.own,
        "crossing_to_frozen_ms": None,
        "crossing_to_last_step_ms": None,
        "resolution_ms": None,
        "event_to_frozen_ms": None,
        "overshoot_mib": None,
        "at_limit": None,
        "gb_per_second": None,
        "saved": None,
        "killed": 0,
        "right": False,
        "false_alarm": False,
        "held": 0,
        "moves": None,
        "paused_seconds": None,
        "seconds": None,
        "note": "",
    }
