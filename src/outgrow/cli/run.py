"""`outgrow run`."""

from __future__ import annotations

import os
import pwd
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click

from outgrow.agent import session
from outgrow.agent.host import local_scheduler, open_host, state_dir
from outgrow.agent.requests import Outcome, Say
from outgrow.cli.options import Parsed, state_dir_option
from outgrow.cli.text import printable
from outgrow.core.errors import Unsupported, Usage
from outgrow.core.job import check_name, parse_label
from outgrow.core.policy import LimitPolicy, SavePolicy, parse_on_limit
from outgrow.core.sizing import (
    DEFAULT_BAND,
    DEFAULT_NEXT_SIZE,
    NO_LIMIT,
    NextSize,
    parse_next_size,
)
from outgrow.core.units import format_option, parse_duration, parse_size
from outgrow.kernel.cgroups import find_hierarchies

KEPT = 75
"""The job has no status yet: it is saved and kept, try `outgrow resume`."""

SIZE = Parsed("SIZE", parse_size)
MESSAGES = click.option(
    "--messages",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Say on standard error what happens to the job; auto: only on a terminal, so that the"
    " job's own output stays what it is.",
)


@click.command("run", context_settings={"ignore_unknown_options": False})
@click.option("--memory", type=SIZE, help="The first limit [default: none, and no guard].")
@click.option(
    "--max-memory", type=SIZE, help="The last limit [default: what this host can ever give]."
)
@click.option(
    "--next-size",
    type=Parsed("RULE", parse_next_size),
    default=str(DEFAULT_NEXT_SIZE),
    show_default=True,
    help="How much more it gets each time: a factor (1.5x) or a step (+2GiB).",
)
@click.option(
    "--band",
    type=SIZE,
    default=format_option(DEFAULT_BAND),
    show_default=True,
    help="How far below the limit growth is stopped; at most a quarter of the limit.",
)
@click.option(
    "--on-limit",
    type=Parsed("ACTIONS", parse_on_limit),
    default="grow,move",
    show_default=True,
    help="What to do there, in order until one holds: warn, grow, move, leave.",
)
@click.option(
    "--warn-signal", default="TERM", show_default=True, help="What `warn` sends to the job."
)
@click.option(
    "--warn-grace",
    type=Parsed("DURATION", parse_duration),
    default="30s",
    show_default=True,
    help="How long the job may use its band after a warning.",
)
@click.option(
    "--save-every",
    type=Parsed("DURATION", parse_duration),
    help="Also save it so long after each save, while it runs [default: never].",
)
@click.option(
    "--copy-files",
    type=SIZE,
    default=format_option(SavePolicy.copy_files),
    show_default=True,
    help="Copy files that it rewrites in place with each save, up to so much in all.",
)
@click.option(
    "--wait-all",
    is_flag=True,
    help="Wait for what the command leaves in the background, instead of ending it.",
)
@click.option("--name", help="A name for the job [default: the command's].")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="A label; repeatable.")
@click.option("--user", metavar="USER", help="Run it as this user.")
@MESSAGES
@state_dir_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def command(
    memory: int | None,
    max_memory: int | None,
    next_size: NextSize,
    band: int,
    on_limit: tuple[object, ...],
    warn_signal: str,
    warn_grace: float,
    save_every: float | None,
    copy_files: int,
    wait_all: bool,
    name: str | None,
    labels: tuple[str, ...],
    user: str | None,
    messages: str,
    state_dir: str | None,
    command: tuple[str, ...],
) -> int:
    """Run a command under guard: at its memory limit it is saved, its memory is given back, and
    it is carried on under a larger one.

    The command's exit status is passed through, death by a signal as 128+n. 75: it is saved and
    kept; go on with `outgrow resume`.

    \b
    outgrow run --memory 2GiB --max-memory 16GiB -- python3 analysis.py
    """
    policy = LimitPolicy(
        memory=memory or NO_LIMIT,
        max_memory=_cap(memory, max_memory),
        next_size=next_size,
        wanted_band=band,
        on_limit=on_limit,  # type: ignore[arg-type]
        warn_signal=signal_number(warn_signal),
        warn_grace=warn_grace,
    )
    saving = SavePolicy(every=save_every, copy_files=copy_files)
    submission = _submission(command, name, labels, user, policy, saving, wait_all=wait_all)
    return keep(state_dir, messages, lambda host, say: session.run(host, submission, say))


def keep(
    directory: str | None,
    messages: str,
    work: Callable[..., Outcome],
) -> int:
    """Keep a job in the foreground; its exit status."""
    say = teller(messages)
    host = open_host(state_dir(directory), tell)
    outcome = work(host, say)
    if outcome.message:
        tell(outcome.message)
    return KEPT if outcome.status is None else outcome.status


def tell(text: str) -> None:
    """One line on standard error."""
    try:
        sys.stderr.write(f"outgrow: {printable(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # a closed standard error must not cost the job its keeper


def teller(messages: str) -> Say:
    """What --messages asks for: everything, nothing, or what is between."""
    everything = messages == "always" or (messages == "auto" and sys.stderr.isatty())

    def say(text: str, *, trouble: bool = False) -> None:
        if everything or (trouble and messages == "auto"):
            tell(text)

    return say


def _cap(memory: int | None, max_memory: int | None) -> int:
    if memory is None:
        if max_memory is not None:
            raise Usage("--max-memory without --memory", remedy="give the first limit as well")
        return NO_LIMIT
    if max_memory is not None:
        return max_memory
    return max(memory, local_scheduler(find_hierarchies()).cap())


def _submission(
    command: tuple[str, ...],
    name: str | None,
    labels: tuple[str, ...],
    user: str | None,
    policy: LimitPolicy,
    saving: SavePolicy,
    *,
    wait_all: bool,
) -> session.Submission:
    if not command[0]:
        raise Usage("the command is empty", remedy="write it after --")
    uid, gid, groups = _credentials(user)
    try:
        directory = str(Path.cwd())
    except OSError as error:
        raise Usage(f"the working directory is gone ({error.strerror})", remedy="cd") from None
    environment = _environment()
    environment.pop("OUTGROW_FAULT", None)
    return session.Submission(
        command=command,
        name=check_name(name) if name is not None else _name_of(command[0]),
        policy=policy,
        saving=saving,
        uid=uid,
        gid=gid,
        groups=groups,
        directory=directory,
        environment=environment,
        labels=dict(parse_label(label) for label in labels),
        wait_all=wait_all,
    )


def _environment() -> dict[str, str]:
    """What this process was started with. In a C locale Python sets LC_CTYPE for itself (PEP 538),
    which is nothing that the user did."""
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, equals, value in pairs if name and equals}


def _name_of(program: str) -> str:
    name = "".join(c if c.isprintable() else "?" for c in Path(program).name)[:200]
    return "job" if name in ("", "last") else name


def _credentials(user: str | None) -> tuple[int, int, tuple[int, ...]]:
    if user is None:
        return os.getuid(), os.getgid(), tuple(os.getgroups())
    if os.getuid() != 0:
        raise Unsupported("running as another user without root", remedy="run as root")
    try:
        entry = (
            pwd.getpwuid(int(user)) if user.isascii() and user.isdecimal() else pwd.getpwnam(user)
        )
    except KeyError:
        raise Usage(f"there is no user {user!r}", remedy="see `getent passwd`") from None
    return entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))


def signal_number(name: str) -> int:
    """The number of `TERM`, `SIGUSR1` or `12`. Raises Usage."""
    try:
        if name.isascii() and name.isdecimal():
            return signal.Signals(int(name))
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise Usage(f"there is no signal {name!r}", remedy="write TERM, USR1 or a number") from None
