"""`outgrow ps`."""

from __future__ import annotations

import click

from outgrow.cli.jobs import Jobs, View
from outgrow.cli.options import json_option, state_dir_option
from outgrow.cli.text import limit_bytes, rfc3339, shell_words, size_or_none, table, write_json
from outgrow.core.errors import NotFound

SCHEMA = 1


@click.command("ps")
@click.option("-a", "--all", "show_all", is_flag=True, help="Jobs that have ended as well.")
@json_option
@state_dir_option
def command(show_all: bool, as_json: bool, state_dir: str | None) -> None:
    """List jobs."""
    try:
        views = Jobs(state_dir).all()
    except NotFound:
        views = []
    if not show_all:
        views = [view for view in views if view.state != "ended"]
    if as_json:
        write_json({"schema": SCHEMA, "jobs": [_as_data(view) for view in views]})
        return
    rows = [
        (
            view.job.id,
            view.job.name,
            view.state,
            size_or_none(view.last.limit if view.last else None),
            str(view.last.number if view.last else 0),
            shell_words(view.job.command),
        )
        for view in views
    ]
    table(("ID", "NAME", "STATE", "LIMIT", "INCARNATION", "COMMAND"), rows)


def _as_data(view: View) -> dict[str, object]:
    return {
        "id": view.job.id,
        "name": view.job.name,
        "state": view.state,
        "owner": view.job.owner,
        "limit_bytes": limit_bytes(view.last.limit if view.last else None),
        "incarnations": view.last.number if view.last else 0,
        "exit_status": view.job.exit_status,
        "created": rfc3339(view.job.created),
        "command": list(view.job.command),
        "labels": view.job.labels,
    }
