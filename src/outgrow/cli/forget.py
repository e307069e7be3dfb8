"""`outgrow forget`."""

from __future__ import annotations

import shutil

import click

from outgrow.agent.tidy import remove_cgroups
from outgrow.agent.truth import keep_alone
from outgrow.cli.jobs import Jobs
from outgrow.cli.options import job_argument, state_dir_option
from outgrow.core.errors import Busy
from outgrow.core.lifecycle import State


@click.command("forget")
@job_argument
@click.option("--force", is_flag=True, help="Also a saved job that has not ended: it is lost then.")
@state_dir_option
def command(job: str, force: bool, state_dir: str | None) -> None:
    """Remove a job's record and its checkpoints."""
    jobs = Jobs(state_dir)
    view = jobs.find(job)
    if view.truth.kept or view.truth.state is State.RUNNING:
        raise Busy(f"job {view.job.id} runs", remedy=f"end it first: outgrow kill {view.job.id}")
    if view.truth.checkpoint is not None and view.state != "ended" and not force:
        raise Busy(
            f"job {view.job.id} is {view.state} and can still go on",
            preserved="nothing was removed",
            remedy=f"outgrow resume {view.job.id}, or forget it with --force",
        )
    run = jobs.state.run(view.job.id)
    lock = keep_alone(run, view.job.id) if run.is_dir() else None
    remove_cgroups(view.job.id, view.last)
    jobs.journal.forget(view.job.id)
    jobs.store.forget(view.job.id)
    shutil.rmtree(run, ignore_errors=True)
    if lock is not None:
        lock.close()
    click.echo(f"{view.job.name} ({view.job.id}) is forgotten")
