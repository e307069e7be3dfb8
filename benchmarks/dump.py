"""A save and a resume under outgrow, beside raw CRIU and beside plain bytes on the same storage.

    .venv/bin/python benchmarks/dump.py [--quick] [--json [FILE]]

As root. docs/benchmarks.md says what each column means.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import frame
from dumping import cases, ours, plain, raw, tables
from dumping.cases import GIB, Case, Way
from racing.place import Place

from outgrow.core.errors import OutgrowError

_WAYS = {Way.OUTGROW: ours.measure, Way.CRIU: raw.measure, Way.PLAIN: plain.measure}


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.geteuid() != 0:
        sys.exit("dump: saves and restores processes: run it as root")
    load = frame.Load()
    try:
        with Place(options.folder, 0, warm=True) as place:
            report = run(plan(options), place, options.lock)
            about = f"cgroup v{place.version}"
    except OutgrowError as error:
        sys.exit(f"dump: {error}")
    except KeyboardInterrupt:
        return 130
    for file in options.beside:
        report.rows += json.loads(file.read_text())["rows"]
    report.goals = tables.goals(report.rows)
    footer = f"images on {frame.filesystem(options.folder)}; {about}; {frame.machine()}; {load}"
    return frame.publish(report, options.json, tables.show(report, footer))


def plan(options: argparse.Namespace) -> list[Case]:
    """The cases of these options."""
    if options.quick:
        return cases.quick()
    sizes = [int(float(size) * GIB) for size in options.sizes.split(",")] if options.sizes else []
    return cases.full(sizes or cases.SIZES, options.repetitions)


def run(planned: Sequence[Case], place: Place, lock: Path | None) -> frame.Report:
    """All of them, the ways interleaved; up to an interrupt, when there is one."""
    report = frame.Report()
    with frame.Turns(lock) as turns, suppress(KeyboardInterrupt):
        for number, case in enumerate(planned, start=1):
            turns.next_one()
            for way in case.order:
                frame.progress(f"{number}/{len(planned)} {case.mib} MiB of {case.kind}: {way}")
                report.rows += measure(case, way, place)
    frame.progress("")
    return report


def measure(case: Case, way: Way, place: Place) -> list[frame.Row]:
    """The rows of one way; with a note where it failed."""
    try:
        return _WAYS[way](case, place)
    except (OSError, RuntimeError) as error:
        return [{**cases.new_row(case, way), "right": False, "note": str(error)}]


def parse() -> argparse.Namespace:
    parser = frame.options("A save and a resume, beside raw CRIU and beside plain bytes.")
    parser.add_argument("--sizes", metavar="GIB,…", help="only these, such as 0.25,8")
    parser.add_argument("--repetitions", type=int, default=cases.REPETITIONS, help="[%(default)s]")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="where images go [%(default)s]"
    )
    parser.add_argument(
        "--beside", type=Path, action="append", default=[], metavar="FILE",
        help="show it with the rows of an earlier run's --json FILE, of other sizes",
    )  # fmt: skip
    frame.add_lock(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
