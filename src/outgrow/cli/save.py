"""`outgrow save`."""

from __future__ import annotations

import click

from outgrow.agent.control import ask
from outgrow.cli.jobs import Jobs
from outgrow.cli.options import job_argument, json_option, state_dir_option
from outgrow.cli.text import write_json
from outgrow.core.errors import CannotSave
from outgrow.core.units import format_size


@click.command("save")
@job_argument
@click.option("--stop", is_flag=True, help="Give its memory back afterwards, and keep it on disk.")
@json_option
@state_dir_option
def command(job: str, stop: bool, as_json: bool, state_dir: str | None) -> None:
    """Write a running job down; it runs on, or is kept on disk with --stop."""
    jobs = Jobs(state_dir)
    view = jobs.find(job)
    if view.state in ("ended", "lost", "saved"):
        raise CannotSave(f"job {view.job.id} is {view.state}: it has no process now")
    answer = ask(jobs.state.run(view.job.id), verb="save", stop=stop)
    if as_json:
        write_json({"schema": 1, **answer})
        return
    kept = "is kept on disk" if stop else "runs on"
    click.echo(
        f"checkpoint {answer['checkpoint']} of {view.job.name}"
        f" ({format_size(int(answer['bytes']))}); the job {kept}"
    )
