"""`outgrow`: finds the verb, and turns every error into one clear message and its exit status."""

from __future__ import annotations

import importlib
import os
import sqlite3
import sys

import click

from outgrow import __version__
from outgrow.core.errors import OutgrowError
from outgrow.journal.schema import broken

VERBS = {
    "run": "Run a command under guard: it outgrows its memory and loses nothing.",
    "ps": "List jobs.",
    "show": "Show a job's story.",
    "save": "Write a running job down.",
    "resume": "Carry a saved job on.",
    "move": "Carry a running job on under another size.",
    "kill": "End a job.",
    "forget": "Remove a job's record and its checkpoints.",
    "doctor": "Find out what this host can do.",
    "demo": "See a job outgrow its memory and lose nothing.",
}
_INTERRUPTED = 130


class _Verbs(click.Group):
    """Imports a verb's file when it is asked for: `outgrow run` starts on a host that is short of
    memory, and must not bring with it what only a report needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"outgrow.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="outgrow")
def cli() -> None:
    """When a job outgrows its memory, outgrow saves it and carries it on where it fits.

    JOB is a job's id, the beginning of one, a name, or `last`.

    Exit status: 0 fine, 1 failed, 2 usage, 3 partly done, 10 no such job or checkpoint, 11 busy,
    12 integrity, 13 this job cannot be saved, 14 this host cannot, 75 try again, 130 interrupted.
    """


def main() -> None:
    """The entry point. Never ends with a traceback for what a user or a host can do wrong."""
    _fill_standard_streams()
    try:
        # Not cli.main(), which ends with 1 by itself when nobody reads on.
        with cli.make_context("outgrow", sys.argv[1:]) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as done:
        status = done.exit_code
    except click.exceptions.Abort:
        status = _INTERRUPTED
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except OutgrowError as error:
        complain(error)
        status = error.exit_status
    except BrokenPipeError:
        # Nobody reads on; what was asked for is done. Nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except sqlite3.Error as error:
        complain(broken(error))
        status = OutgrowError.exit_status
    except OSError as error:
        complain(OutgrowError(f"the system said no: {error}", remedy="see `outgrow doctor`"))
        status = OutgrowError.exit_status
    sys.exit(status if isinstance(status, int) else 0)


def _fill_standard_streams() -> None:
    """A stream that the caller closed becomes /dev/null, before anything else that is opened takes
    its number and is handed to a job as its output."""
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python's own are None then, which nothing that prints expects.
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def complain(error: OutgrowError) -> None:
    """What happened, what was preserved, what to do: one line each, on standard error."""
    click.echo(f"outgrow: {error.message}", err=True)
    if error.preserved:
        click.echo(f"  {error.preserved}", err=True)
    if error.remedy:
        click.echo(f"  {error.remedy}", err=True)
