"""`outgrow resume`."""

from __future__ import annotations

import click

from outgrow.agent.resume import resume
from outgrow.cli.jobs import Jobs
from outgrow.cli.options import job_argument, state_dir_option
from outgrow.cli.run import MESSAGES, SIZE, keep


@click.command("resume")
@job_argument
@click.option("--memory", type=SIZE, help="Its limit from now on [default: the last one].")
@MESSAGES
@state_dir_option
def command(job: str, memory: int | None, messages: str, state_dir: str | None) -> int:
    """Carry a saved job on from the very instruction where it stopped, in this terminal.

    Its pipes and its terminal become those of this command. A job that runs on although its
    outgrow was killed is taken under guard again. The exit status is the job's own, as with run.
    """
    jobs = Jobs(state_dir)
    view = jobs.find(job)
    jobs.journal.close()
    return keep(
        state_dir,
        messages,
        lambda host, say: resume(host, view.job, view.last, memory, say),
    )
