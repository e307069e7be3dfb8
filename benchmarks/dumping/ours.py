"""Under outgrow: `outgrow move`, and `outgrow save --stop` with `outgrow resume`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from frame import Row
from holding import Board
from product import Product, finish
from racing.place import Place

from dumping.cases import MIB, Case, Way, new_row
from dumping.held import Death, check, command, find, runs_again, wait_until, warm_up

JOB = "dump"
_NS = 1e9
STEPS = ("freeze", "dump", "commit", "release", "wait", "resume", "paused")


def measure(case: Case, place: Place) -> list[Row]:
    """Two rows, of two jobs: the save of a move and its return, and a save for the disk and its
    return, for which every byte is verified. (The second save of one job would not do: CRIU takes
    two to four times as long over a process that it has restored itself.)"""
    return [_measure(case, place, way) for way in (_move, _save_and_resume)]


def _measure(case: Case, place: Place, way: Callable[[_Run, Row], None]) -> Row:
    board_file = place.small / "board"
    board = Board.make(board_file)
    run = _Run(Product(place.disk / "state"), board, command(case, board_file), case.limit)
    row = new_row(case, Way.OUTGROW)
    try:
        wait_until(lambda: board.ready, "the job's start")
        warm_up(place, case.size)
        way(run, row)
        row["right"] = check(board)
        save = run.product.story(JOB)["saves"][-1]
        row["journal"] = [save[f"{step}_seconds"] for step in STEPS]
        row["image_bytes"] = save["bytes"]
    finally:
        run.end()
    return row


class _Run:
    """A job under outgrow, and the keepers that it has had."""

    def __init__(self, product: Product, board: Board, words: list[str], limit: int) -> None:
        self.product, self.board, self.words, self.limit = product, board, words, limit
        sizes = ("--memory", _mib(limit), "--max-memory", _mib(2 * limit))
        self._keepers = [
            product.start("run", "--name", JOB, "--on-limit", "move", *sizes, "--", *words)
        ]

    def see_kept(self) -> None:
        """The keeper has ended; it says how to go on, with a status for that."""
        finish(self._keepers[-1], check=False)

    def resume(self) -> None:
        """In another keeper."""
        self._keepers.append(self.product.start("resume", JOB))

    def death(self) -> Death:
        """Of the job's process, from now on; all that is dirty is on disk before."""
        death = Death(find(self.words))
        os.sync()
        self.board.forget()
        return death

    def end(self) -> None:
        """Nothing is left of it."""
        self.product.clear(JOB)
        for keeper in self._keepers:
            finish(keeper, check=False)


def _move(run: _Run, row: Row) -> None:
    death = run.death()
    asked = run.product.start("move", JOB, "--memory", _mib(run.limit + 64 * MIB))
    released = death.wait()
    again = runs_again(run.board, released)
    finish(asked)
    row["save_seconds"] = row["durable_seconds"] = (released - run.board.pause()[0]) / _NS
    row["resume_seconds"] = (again - released) / _NS


def _save_and_resume(run: _Run, row: Row) -> None:
    death = run.death()
    asked = run.product.start("save", JOB, "--stop")
    released = death.wait()
    row["save_seconds"] = row["durable_seconds"] = (released - run.board.last) / _NS
    finish(asked)
    run.see_kept()
    began = time.time_ns()
    run.resume()
    row["verified_resume_seconds"] = (runs_again(run.board, released) - began) / _NS


def _mib(size: int) -> str:
    return f"{size // MIB}MiB"
