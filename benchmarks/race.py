"""The race at the limit: a job that grows against the guard that stops it.

    .venv/bin/python benchmarks/race.py [--quick] [--vm] [--json [FILE]]

As root. docs/benchmarks.md says what each column means.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import frame
from racing import alone, cases, guarded, tables, whole
from racing.cases import Case, Way
from racing.place import Place

from outgrow.agent.reliable import become_reliable
from outgrow.core.errors import OutgrowError

STREAM_MIB = 512
"""Four times the limit under which it is streamed; under emulation twice."""


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.vm:
        from racing import machine  # noqa: PLC0415 - it needs tests/, which the machine has not

        return machine.main(options)
    if os.geteuid() != 0:
        sys.exit("race: limits and freezes cgroups: run it as root")
    # The guard runs in this process; so it gets what the product gives itself.
    become_reliable()
    load = frame.Load()
    try:
        size = STREAM_MIB // 2 if options.emulated else STREAM_MIB
        with Place(options.disk, size, warm=not options.emulated) as place:
            report = run(plan(options), place)
            version = place.version
    except OutgrowError as error:
        sys.exit(f"race: {error}")
    except KeyboardInterrupt:
        return 130
    report.goals = tables.goals(report.rows, timed=not options.emulated)
    footer = f"cgroup v{version}; {frame.machine()}; {load}"
    return frame.publish(report, options.json, tables.show(report, footer))


def plan(options: argparse.Namespace) -> list[Case]:
    """The cases of these options."""
    grids = {
        (False, False): cases.full,
        (False, True): cases.quick,
        (True, False): cases.emulated,
        (True, True): cases.emulated_quick,
    }
    chosen = grids[options.emulated, options.quick]()
    wanted = options.only.split(",") if options.only else []
    return [case for case in chosen if not wanted or {case.kind, str(case.way)} & {*wanted}]


def run(planned: Sequence[Case], place: Place) -> frame.Report:
    """All races, one after another."""
    ways = {
        Way.GUARD: guarded.race,
        Way.OUTGROW: whole.race,
        Way.KERNEL: alone.race,
        Way.EARLYOOM: alone.race,
    }
    report = frame.Report()
    for number, case in enumerate(planned, start=1):
        frame.progress(f"{number}/{len(planned)} {case.way}: {case.kind} × {case.processes}")
        report.rows.append(ways[case.way](case, place))
    frame.progress("")
    return report


def parse() -> argparse.Namespace:
    parser = frame.options("A job that grows against the guard that stops it.")
    parser.add_argument("--vm", action="store_true", help="on cgroup v2, in a virtual machine")
    parser.add_argument("--only", metavar="WORDS", help="only these kinds or ways, by comma")
    parser.add_argument(
        "--disk", type=Path, default=Path("/var/tmp"), help="for files on disk [%(default)s]"
    )
    parser.add_argument("--emulated", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
