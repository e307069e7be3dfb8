"""`outgrow kill`."""

from __future__ import annotations

import click

from outgrow.agent.control import ask
from outgrow.agent.unkept import end_unkept
from outgrow.cli.jobs import Jobs
from outgrow.cli.options import job_argument, state_dir_option
from outgrow.cli.run import signal_number
from outgrow.core.errors import NotFound


@click.command("kill")
@job_argument
@click.option(
    "--signal", "name", default="TERM", show_default=True, help="What it is told to end by."
)
@state_dir_option
def command(job: str, name: str, state_dir: str | None) -> None:
    """End a job: a signal first, SIGKILL five seconds later. A saved job ends where it is."""
    number = signal_number(name)
    jobs = Jobs(state_dir)
    view = jobs.find(job)
    if view.state == "ended":
        raise NotFound(f"job {view.job.id} has ended already")
    if view.truth.kept:
        ask(jobs.state.run(view.job.id), verb="kill", signal=number)
    else:
        end_unkept(jobs.state, jobs.store, view.job, view.last, number)
    click.echo(f"{view.job.name} ({view.job.id}) is told to end")
