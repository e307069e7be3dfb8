"""By raw CRIU, the one that outgrow uses: `criu dump`, fsync of its images, `criu restore`.

The job runs in a PID and a mount namespace, and in a memory cgroup with the limit that it has under
outgrow, so that its memory costs the kernel the same. Times begin with the command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from frame import Row
from holding import Board
from racing.jobs import JOIN
from racing.place import Place

from dumping.cases import Case, Way, new_row
from dumping.held import LONGEST, Death, check, command, find, runs_again, wait_until, warm_up
from outgrow.engines.criu.find import find_criu
from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2

_NS = 1e9
_PID1 = Path(__file__).with_name("pid1.py")
_UNSHARE = ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
_QUIET = ("--no-default-config", "-v2", "--manage-cgroups=ignore")


def measure(case: Case, place: Place) -> list[Row]:
    """One row."""
    row = new_row(case, Way.CRIU)
    board_file = place.small / "board"
    board = Board.make(board_file)
    words = command(case, board_file)
    images = place.disk / "images"
    images.mkdir()
    pid1 = [sys.executable, "-I", "-S", str(_PID1), *words]
    with place.cgroup(case.limit) as cgroup:
        namespace = subprocess.Popen([*_in(cgroup), *_UNSHARE, *pid1], start_new_session=True)
        try:
            wait_until(lambda: board.ready, "the job's start")
            warm_up(place, case.size)
            init = find(pid1)
            _dump(row, board, words, init, images)
            _restore(row, board, cgroup, init, images)
            row["right"] = check(board)
        finally:
            namespace.kill()
            namespace.wait()
            shutil.rmtree(images)
    return [row]


def _dump(row: Row, board: Board, words: list[str], init: int, images: Path) -> None:
    job = find(words)
    death = Death(job)
    inside = (Path("/proc") / str(job) / "status").read_text().partition("NSpid:")[2].split("\n")[0]
    os.sync()
    board.forget()
    began = time.time_ns()
    _criu(init, "dump", images, "--tree", inside.split()[-1], "--network-lock", "skip")
    ended = time.time_ns()
    row["save_seconds"] = (max(ended, death.wait()) - began) / _NS
    sync_all(images)
    row["durable_seconds"] = row["save_seconds"] + (time.time_ns() - ended) / _NS
    row["image_bytes"] = sum(image.stat().st_size for image in images.iterdir())


def _restore(row: Row, board: Board, cgroup: CgroupV1 | CgroupV2, init: int, images: Path) -> None:
    began = time.time_ns()
    _criu(init, "restore", images, "--restore-detached", before=_in(cgroup))
    row["resume_seconds"] = (runs_again(board, began) - began) / _NS


def _criu(init: int, verb: str, images: Path, *words: str, before: tuple[str, ...] = ()) -> None:
    inside = ("nsenter", "--target", str(init), "--pid", "--mount", find_criu(), verb)
    folder = ("--images-dir", str(images), "--log-file", f"{verb}.log")
    done = subprocess.run(
        [*before, *inside, *folder, *_QUIET, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    if done.returncode:
        log = (images / f"{verb}.log").read_text(errors="replace")
        raise RuntimeError(f"criu {verb}: {log[-500:]}")


def _in(cgroup: CgroupV1 | CgroupV2) -> tuple[str, ...]:
    return ("/bin/sh", "-c", JOIN, " ".join(cgroup.join_files))


def sync_all(folder: Path) -> None:
    """fsync(2) of every file, and of the folder."""
    for path in (*sorted(folder.iterdir()), folder):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
