"""`outgrow demo`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path

import click

from outgrow.agent.bare import BareRun, run_bare
from outgrow.agent.host import open_host, state_dir
from outgrow.cli.jobs import Jobs
from outgrow.cli.run import tell
from outgrow.cli.story import as_story
from outgrow.cli.text import limit_bytes, size_or_none, table
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import MIB, format_option, format_seconds, format_size
from outgrow.kernel.cgroups import Hierarchies, find_hierarchies
from outgrow.picture import Limit, Mark, Point, Story, svg, terminal

_LIMIT = 256 * MIB
_WIDEST = 100


@click.command("demo")
@click.option("--scale", default=1.0, show_default=True, help="Size of the analysis.")
@click.option(
    "--svg",
    "svg_path",
    default="outgrow-demo.svg",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the picture goes.",
)
def command(scale: float, svg_path: Path) -> int:
    """See a job outgrow its memory and lose nothing.

    A real analysis, three times: alone with enough memory; under 256 MiB without outgrow; under
    256 MiB with outgrow.
    """
    folder = Path(tempfile.mkdtemp(prefix="outgrow-demo-", dir="/var/tmp"))
    try:
        return _demo(folder, scale, svg_path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _demo(folder: Path, scale: float, svg_path: Path) -> int:
    open_host(state_dir(str(folder / "state")), tell)  # says early, and clearly, what is missing
    program = resources.files("outgrow.demo") / "analysis.py"
    with resources.as_file(program) as path:
        argv = [sys.executable, str(path), "--scale", str(scale)]
        hierarchies = find_hierarchies()
        click.echo(f"The job: an analysis that was given {format_size(_LIMIT)} and needs more.\n")
        alone = _bare(hierarchies, "1/3 alone, with enough memory", "alone", argv, NO_LIMIT)
        killed = _bare(hierarchies, "2/3 without outgrow", "without", argv, _LIMIT)
        rescued = _with_outgrow(folder, argv)
    same = alone.status == rescued.status == 0 and alone.output == rescued.output
    stories = [
        _story(alone, "Alone, with enough memory", f"answer in {format_seconds(alone.seconds)}"),
        _story(killed, f"Under {format_size(_LIMIT)}, without outgrow", _fate(killed)),
        replace(rescued.story, caption=rescued.caption(same)),
    ]
    for story in stories:
        _show(story)
    _summary(alone, killed, rescued)
    svg_path.write_text(svg.render(stories), encoding="utf-8")
    click.echo(f"\npicture: {svg_path}")
    click.echo(f"same answer: {'yes' if same else 'no'}")
    return 0 if same else 1


class _Rescued:
    """The third run, as its journal tells it."""

    def __init__(self, folder: Path, argv: list[str], progress: Callable[[float], None]) -> None:
        state = str(folder / "state")
        command = [sys.executable, "-m", "outgrow", "run", "--state-dir", state]
        command += ["--memory", format_option(_LIMIT), "--on-limit", "move", "--name", "demo"]
        started = time.time()
        with subprocess.Popen(
            [*command, "--", *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            while process.poll() is None:
                progress(time.time() - started)
                time.sleep(0.1)
            self.output = process.stdout.read() if process.stdout else ""
        self.seconds = time.time() - started
        self.status = process.returncode
        jobs = Jobs(state)
        view = jobs.find("last")
        self.saves = [save for save in jobs.journal.saves(view.job.id) if save.outcome == "moved"]
        self.lost = view.job.work_lost_seconds
        self.paused = sum(save.paused_seconds for save in self.saves)
        self.story = as_story(
            jobs,
            view,
            title=f"Under {format_size(_LIMIT)}, with outgrow",
        )

    def caption(self, same: bool) -> str:
        """What is to be said of it."""
        return (
            f"moved {len(self.saves)} times, paused {format_seconds(self.paused)} in all,"
            f" {format_seconds(self.lost)} of work lost,"
            f" {'the same answer' if same else 'ANOTHER ANSWER'}"
        )


def _bare(hierarchies: Hierarchies, label: str, name: str, argv: list[str], limit: int) -> BareRun:
    progress = _progress(label)
    run = run_bare(hierarchies, f"demo-{name}-{os.getpid()}", argv, limit, progress)
    _finish_line(label, run.status, run.seconds)
    return run


def _with_outgrow(folder: Path, argv: list[str]) -> _Rescued:
    label = "3/3 with outgrow"
    rescued = _Rescued(folder, argv, _progress(label))
    _finish_line(label, rescued.status, rescued.seconds)
    return rescued


def _progress(label: str) -> Callable[[float], None]:
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda seconds: click.echo(f"\r{label} … {seconds:.0f} s ", nl=False, err=True)


def _finish_line(label: str, status: int, seconds: float) -> None:
    start = "\r" if sys.stderr.isatty() else ""
    click.echo(f"{start}{label}: status {status} after {format_seconds(seconds)}", err=True)


def _fate(run: BareRun) -> str:
    if run.status == 0:
        return f"answer in {format_seconds(run.seconds)}"
    return f"killed by the kernel, status {run.status}: {format_seconds(run.seconds)} of work lost"


def _story(run: BareRun, title: str, caption: str) -> Story:
    limit = limit_bytes(run.samples[0].limit) if run.samples else None
    killed = run.status != 0
    label = f"killed, status {run.status}" if killed else "ended"
    return Story(
        title=title,
        points=[Point(sample.at - run.started, sample.usage) for sample in run.samples],
        limits=[] if limit is None else [Limit(0.0, limit)],
        marks=[Mark(run.seconds, label, "killed" if killed else "end")],
        pauses=[],
        duration=run.seconds,
        caption=caption,
    )


def _show(story: Story) -> None:
    click.echo()
    for line in terminal.render(
        story,
        width=min(shutil.get_terminal_size((80, 24)).columns, _WIDEST),
        color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
        unicode=(sys.stdout.encoding or "").lower().startswith("utf"),
    ):
        click.echo(line)


def _summary(alone: BareRun, killed: BareRun, rescued: _Rescued) -> None:
    lost = killed.seconds if killed.status else 0.0
    click.echo()
    table(
        ("RUN", "LIMIT", "STATUS", "TIME", "WORK LOST", "ANSWER"),
        [
            (
                "alone",
                size_or_none(NO_LIMIT),
                str(alone.status),
                format_seconds(alone.seconds),
                format_seconds(0),
                _answer(alone.output),
            ),
            (
                "without outgrow",
                format_size(_LIMIT),
                str(killed.status),
                format_seconds(killed.seconds),
                format_seconds(lost),
                _answer(killed.output),
            ),
            (
                "with outgrow",
                format_size(_LIMIT),
                str(rescued.status),
                format_seconds(rescued.seconds),
                format_seconds(rescued.lost),
                _answer(rescued.output),
            ),
        ],
    )


def _answer(output: str) -> str:
    words = output.split()
    return f"…{words[-1][-12:]}" if words else "none"
