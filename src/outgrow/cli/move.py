"""`outgrow move`."""

from __future__ import annotations

import click

from outgrow.agent.control import ask
from outgrow.cli.jobs import Jobs
from outgrow.cli.options import job_argument, json_option, state_dir_option
from outgrow.cli.run import SIZE
from outgrow.cli.text import write_json
from outgrow.core.errors import CannotSave
from outgrow.core.units import format_size


@click.command("move")
@job_argument
@click.option("--memory", type=SIZE, required=True, help="The new limit, larger or smaller.")
@json_option
@state_dir_option
def command(job: str, memory: int, as_json: bool, state_dir: str | None) -> None:
    """Save a running job, give its memory back, and carry it on under another size."""
    jobs = Jobs(state_dir)
    view = jobs.find(job)
    if view.state in ("ended", "lost", "saved"):
        raise CannotSave(
            f"job {view.job.id} is {view.state}: it has no process now",
            remedy="`outgrow resume JOB --memory …` carries a saved job on",
        )
    answer = ask(jobs.state.run(view.job.id), verb="move", memory=memory)
    if as_json:
        write_json({"schema": 1, **answer})
        return
    click.echo(f"{view.job.name} continues with {format_size(memory)}")
