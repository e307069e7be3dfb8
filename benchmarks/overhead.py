"""What outgrow costs while nothing happens: the same work alone, under a limit, and under outgrow.

    .venv/bin/python benchmarks/overhead.py [--quick] [--json [FILE]]

As root. docs/benchmarks.md says what each column means.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import frame
from overheads import cases, memory, runs, tables
from overheads.cases import Case, Way
from racing.place import Place

from outgrow.core.errors import OutgrowError


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.geteuid() != 0:
        sys.exit("overhead: limits cgroups: run it as root")
    load = frame.Load()
    planned = cases.plan(quick=options.quick, repetitions=options.repetitions)
    try:
        with Place(options.folder, 0, warm=True) as place:
            report = run(planned, place, options.lock)
            about = f"cgroup v{place.version}"
    except OutgrowError as error:
        sys.exit(f"overhead: {error}")
    except KeyboardInterrupt:
        return 130
    report.goals = tables.goals(report.rows)
    text = tables.show(report, f"{about}; {frame.machine()}; {load}")
    return frame.publish(report, options.json, text)


def run(planned: Sequence[Case], place: Place, lock: Path | None) -> frame.Report:
    """What memory is around a job, and all of them, the ways interleaved; up to an interrupt."""
    report = frame.Report()
    with frame.Turns(lock, longest=300) as turns, suppress(KeyboardInterrupt):
        turns.next_one()
        report.rows += memory.measure(place)
        for number, case in enumerate(planned, start=1):
            turns.next_one()
            for way in case.order:
                frame.progress(f"{number}/{len(planned)} {case.kind}: {way}")
                report.rows.append(measure(case, way, place))
    frame.progress("")
    return report


def measure(case: Case, way: Way, place: Place) -> frame.Row:
    """The row of one run; with a note where it failed."""
    try:
        return runs.measure(case, way, place)
    except (OSError, RuntimeError) as error:
        return {**cases.new_row(case, way), "note": str(error) or repr(error)}


def parse() -> argparse.Namespace:
    parser = frame.options("What outgrow costs while nothing happens.")
    parser.add_argument("--repetitions", type=int, default=cases.REPETITIONS, help="[%(default)s]")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for the state [%(default)s]"
    )
    frame.add_lock(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
