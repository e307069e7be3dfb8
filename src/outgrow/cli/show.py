"""`outgrow show`."""

from __future__ import annotations

import os
import shutil
import sys

import click

from outgrow.cli.jobs import Jobs, View
from outgrow.cli.options import job_argument, json_option, state_dir_option
from outgrow.cli.story import as_data, as_story, save_line
from outgrow.cli.text import local_time, printable, shell_words, size_or_none, table, write_json
from outgrow.core.units import format_seconds, format_size
from outgrow.picture import terminal

_WIDEST = 100


@click.command("show")
@job_argument
@json_option
@state_dir_option
def command(job: str, as_json: bool, state_dir: str | None) -> None:
    """Show a job's story: incarnations, limits, peaks, saves, work lost, and a picture."""
    jobs = Jobs(state_dir)
    view = jobs.find(job)
    if as_json:
        write_json(as_data(jobs, view))
        return
    _print_head(view)
    _print_incarnations(jobs, view)
    click.echo()
    for line in terminal.render(
        as_story(jobs, view),
        width=min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
        color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        unicode=(sys.stdout.encoding or "").lower().startswith("utf"),
    ):
        click.echo(line)


def _print_head(view: View) -> None:
    job = view.job
    status = "" if job.exit_status is None else f", status {job.exit_status}"
    reason = f" ({printable(job.reason)})" if job.reason else ""
    click.echo(f"{job.name}  {job.id}  {view.state}{status}{reason}")
    click.echo(f"  {shell_words(job.command)}")
    click.echo(f"  in {shell_words([job.directory])}, as uid {job.owner}")
    for key, value in job.labels.items():
        click.echo(f"  {key}={value}")
    if view.state == "saved":
        click.echo(f"  saved on disk; go on with: outgrow resume {job.id}")
    if view.state == "unguarded":
        click.echo(f"  runs without its guard; take it back with: outgrow resume {job.id}")
    if view.state == "lost" and view.truth.checkpoint is not None:
        click.echo(f"  checkpoint {view.truth.checkpoint} is kept: outgrow resume {job.id}")
    click.echo(f"  work lost: {format_seconds(job.work_lost_seconds)}")


def _print_incarnations(jobs: Jobs, view: View) -> None:
    rows = []
    for one in jobs.journal.incarnations(view.job.id):
        lasted = "" if one.ended is None else format_seconds(one.ended - one.started)
        rows.append(
            (
                str(one.number),
                local_time(one.started),
                lasted,
                size_or_none(one.limit),
                format_size(one.peak) if one.peak else "-",
                one.end_reason or "-",
            )
        )
    click.echo()
    table(("#", "STARTED", "LASTED", "LIMIT", "PEAK", "ENDED"), rows)
    saves = jobs.journal.saves(view.job.id)
    if saves:
        click.echo()
    for save in saves:
        click.echo(f"  {save.cause}, incarnation {save.incarnation}: {save_line(save)}")
        if save.detail:
            click.echo(f"    {printable(save.detail)}")
