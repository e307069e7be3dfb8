"""Options that several verbs share, and what the parsers of the core look like to click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from outgrow.core.errors import Usage

T = TypeVar("T")


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """An option read by a function of the core; its Usage error becomes click's."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except Usage as error:
            self.fail(str(error), param, ctx)


state_dir_option = click.option(
    "--state-dir",
    metavar="DIR",
    help="Where the journal and the checkpoints are [default: $OUTGROW_STATE_DIR or"
    " /var/lib/outgrow].",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
job_argument = click.argument("job")
