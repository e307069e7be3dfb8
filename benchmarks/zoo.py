"""Programs that people run, and what is done to them: does each notice, how long does it stand?

    .venv/bin/python benchmarks/zoo.py [--only NAMES] [--cases NAMES] [--seed N] [--json FILE]

As root. The programs and the cases are those of tests/zoo, and with the same seed the instants are
the same. docs/benchmarks.md says what each column means.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import frame
from frame import Row

CHECKOUT = Path(__file__).parents[1]
sys.path.insert(0, str(CHECKOUT))

from tests.host.kit import Outgrow  # noqa: E402
from tests.zoo.cases import Zoo, seed  # noqa: E402
from tests.zoo.zoo import ZOO, Case, Program  # noqa: E402

MIB = 1 << 20
_HEADS = ("program", "case", "outcome", "s", "saves", "pause, s: p50", "worst", "MiB saved")


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.geteuid() != 0:
        sys.exit("zoo: starts, saves and kills jobs: run it as root")
    load = frame.Load()
    report = frame.Report()
    try:
        with tempfile.TemporaryDirectory(prefix="outgrow-zoo-", dir=options.disk) as folder:
            report.rows = run(options, Path(folder))
    except KeyboardInterrupt:
        return 130
    report.goals = goals(report.rows)
    if options.json:
        options.json.write_text(report.as_json() + "\n")
    print(show(report, f"seed {options.seed}; {frame.machine()}; {load}"))
    return report.status


def run(options: argparse.Namespace, folder: Path) -> list[Row]:
    """All that was asked for, one after another."""
    folder.chmod(0o755)  # a user's programs run in it
    calm = folder / "undisturbed"
    calm.mkdir()
    zoo = Zoo(calm, options.seed, options.user)
    planned = [
        (program, case)
        for program in ZOO
        for case in program.cases
        if not options.only or program.name in options.only
        if not options.cases or case in options.cases
    ]
    rows = []
    for number, (program, case) in enumerate(planned, start=1):
        frame.progress(f"{number}/{len(planned)} {program.name} {case}")
        rows.append(row(zoo, folder, program, case))
    frame.progress("")
    return rows


def row(zoo: Zoo, folder: Path, program: Program, case: Case) -> Row:
    """One case: what came of it, and of each of its saves the pause and the size."""
    found: Row = {"program": program.name, "case": str(case), "same": None, "note": None}
    found |= {"seconds": None, "pauses_seconds": [], "saved_bytes": []}
    if missing := program.missing(folder):
        return found | {"note": missing}
    with outgrow(folder / f"{program.name}-{case}") as one:
        try:
            zoo.play(one, program, case)
            found["same"] = True
        except (AssertionError, subprocess.TimeoutExpired) as error:
            found |= {"same": False, "note": program.known or str(error)}
        if "j" not in one.jobs():
            return found
        saves = [save for save in one.story("j")["saves"] if save["outcome"] in ("moved", "saved")]
    return found | {
        "seconds": zoo.undisturbed(program.for_case(case))[1],
        "pauses_seconds": [save["paused_seconds"] for save in saves],
        "saved_bytes": [save["bytes"] for save in saves],
    }


@contextmanager
def outgrow(folder: Path) -> Iterator[Outgrow]:
    """outgrow over a state directory of its own; its jobs are gone at the end."""
    directory = folder / "work"
    directory.mkdir(parents=True)
    one = Outgrow(folder / "state", directory)
    try:
        yield one
    finally:
        for job in one.jobs().values():
            one("kill", job["id"])
            one("forget", job["id"], "--force")


def goals(rows: Sequence[Row]) -> list[frame.Goal]:
    """That none of them notices, but for those of which it is known that they cannot be saved."""
    known = {program.name for program in ZOO if program.known}
    tried = [row for row in rows if row["same"] is not None and row["program"] not in known]
    same = 100 * sum(row["same"] for row in tried) / len(tried) if tried else None
    return [frame.at_least("the same answer, %", same, 100)]


def show(report: frame.Report, footer: str) -> str:
    """The table, what went otherwise, and the goal."""
    notes = [
        f"  {row['program']}, {row['case']}: {row['note']}" for row in report.rows if row["note"]
    ]
    table = frame.table(_HEADS, [_line(row) for row in report.rows])
    told = ["What went otherwise, or was left out:", "", *dict.fromkeys(notes), ""] if notes else []
    return "\n".join([table, "", *told, frame.goal_table(report.goals), "", footer])


def _line(row: Row) -> list[str]:
    outcome = {None: "left out", True: "same answer", False: "NOT THE SAME"}[row["same"]]
    pauses, sizes = row["pauses_seconds"], row["saved_bytes"]
    return [
        row["program"],
        row["case"],
        outcome,
        frame.number(row["seconds"]),
        str(len(pauses)) if row["same"] is not None else "-",
        frame.number(frame.percentile(pauses, 50), 2),
        frame.number(max(pauses, default=None), 2),
        frame.number(max(sizes) / MIB if sizes else None),
    ]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Programs that people run, and must not notice.")
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--only", metavar="NAMES", type=words, help="these programs, by comma")
    parser.add_argument("--cases", metavar="NAMES", type=words, help="these cases, by comma")
    parser.add_argument("--seed", type=int, default=seed(), help="of the instants [another one]")
    parser.add_argument("--user", default="", help="whose jobs they are [root's]")
    parser.add_argument("--json", metavar="FILE", type=Path, help="rows and goals for programs")
    parser.add_argument(
        "--disk", type=Path, default=Path("/var/tmp"), help="for files on disk [%(default)s]"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
