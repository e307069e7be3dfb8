"""`outgrow doctor`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click

from outgrow import libc
from outgrow.agent.examination.examine import examine
from outgrow.agent.examination.findings import Finding, Status, lacking, main_job_runs
from outgrow.agent.host import state_dir as find_state_dir
from outgrow.cli.jobs import Jobs
from outgrow.cli.options import json_option, state_dir_option
from outgrow.cli.text import write_json
from outgrow.core.errors import CannotSave, Unsupported
from outgrow.core.lifecycle import State
from outgrow.kernel.cgroups import open_cgroup
from outgrow.kernel.obstacles import find_obstacles

SCHEMA = 1
CANNOT = Unsupported.exit_status

_MARKS = {Status.OK: "✓", Status.MISSING: "✗", Status.DEGRADED: "~"}
_PLAIN_MARKS = {Status.OK: "+", Status.MISSING: "x", Status.DEGRADED: "~"}


@click.command("doctor")
@click.option("--job", metavar="JOB", help="What keeps this job from being saved, instead.")
@json_option
@state_dir_option
def command(job: str | None, as_json: bool, state_dir: str | None) -> int:
    """Find out what this host can do, by trying it.

    Small processes are limited, stopped, saved and resumed; nothing of them is left. Each thing
    that is missing is told with its remedy and with what works without it.

    Exit status: 0 when a job can be guarded, saved and resumed here, else 14. With --job: 13 when
    something in it cannot be saved.
    """
    if job is not None:
        return _examine_job(job, as_json, state_dir)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    libc.become_subreaper()
    findings = examine(find_state_dir(state_dir))
    runs = main_job_runs(findings)
    if as_json:
        write_json(
            {
                "schema": SCHEMA,
                "checks": [_as_data(finding) for finding in findings],
                "main_job": runs,
            }
        )
    else:
        encoding = sys.stdout.encoding or "ascii"
        for line in lines(findings, encoding):
            click.echo(line)
    return 0 if runs else CANNOT


def _examine_job(text: str, as_json: bool, state_dir: str | None) -> int:
    view = Jobs(state_dir).find(text)
    paths = view.last.cgroups if view.last is not None else ()
    runs = view.state in (State.RUNNING.value, "unguarded")
    pids = open_cgroup(paths).processes() if paths and runs else []
    # What passes by itself, a save waits for.
    obstacles = [found for found in find_obstacles(pids) if not found.reason.passes]
    if as_json:
        found = [
            {"pid": obstacle.pid, "what": obstacle.reason.what, "remedy": obstacle.reason.remedy}
            for obstacle in obstacles
        ]
        write_json({"schema": SCHEMA, "job": view.job.id, "obstacles": found})
    elif not pids:
        click.echo(f"{view.job.name} does not run now: {view.state}.")
    elif not obstacles:
        click.echo(f"Nothing is known that keeps {view.job.name} from being saved.")
    for obstacle in () if as_json else obstacles:
        click.echo(f"{view.job.name} cannot be saved: {obstacle}")
        click.echo(f"  remedy: {obstacle.reason.remedy}")
    return CannotSave.exit_status if obstacles else 0


def lines(findings: Sequence[Finding], encoding: str) -> list[str]:
    """The report for people, in characters that `encoding` has."""
    marks = _MARKS if _writable("".join(_MARKS.values()), encoding) else _PLAIN_MARKS
    width = max(len(finding.name) for finding in findings)
    indent = " " * (width + 6)
    told = []
    for finding in findings:
        told.append(f"{marks[finding.status]} {finding.name.ljust(width)}    {finding.seen}")
        if not finding.tried:
            continue  # what is missing for it is told where it was looked at
        if finding.remedy:
            told.append(f"{indent}remedy: {finding.remedy}")
        if finding.without:
            told.append(f"{indent}works without: {finding.without}")
    told += ["", _conclusion(findings)]
    return [_plain(line, encoding) for line in told]


def _conclusion(findings: Sequence[Finding]) -> str:
    lacks = lacking(findings)
    if lacks:
        return f"A job cannot be guarded, saved and resumed here: {', '.join(lacks)} missing."
    return "A job can be guarded, saved and resumed here."


def _as_data(finding: Finding) -> dict[str, str]:
    return {
        "name": finding.name,
        "status": finding.status.value,
        "seen": finding.seen,
        "remedy": finding.remedy,
        "without": finding.without,
    }


def _writable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _plain(text: str, encoding: str) -> str:
    """Nothing that a terminal would obey or `encoding` lacks: paths are in it."""
    return "".join(c if c.isprintable() and _writable(c, encoding) else "?" for c in text)


def _leave(number: int, _: FrameType | None) -> None:
    """By an exception, so that everything that was made is removed."""
    raise SystemExit(128 + number)
