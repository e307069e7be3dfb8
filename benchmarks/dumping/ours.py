"""Under outgrow: `outgrow move`, then `outgrow save --stop` and `outgrow resume`, of one job."""

from __future__ import annotations

import os
import time

from frame import Row
from holding import Board
from product import Product, Started, finish
from racing.place import Place

from dumping.cases import MIB, Case, Way, new_row
from dumping.held import Death, check, command, find, runs_again, wait_until

JOB = "dump"
_NS = 1e9
STEPS = ("freeze", "dump", "commit", "release", "wait", "resume", "paused")


def measure(case: Case, place: Place) -> list[Row]:
    """Two rows: the save of a move and its return, and a save for the disk and its return, for
    which every byte is verified."""
    board_file = place.small / "board"
    board = Board.make(board_file)
    product = Product(place.disk / "state")
    words = command(case, board_file)
    size = ("--memory", f"{case.limit // MIB}MiB", "--max-memory", f"{2 * case.limit // MIB}MiB")
    keepers = [product.start("run", "--name", JOB, "--on-limit", "move", *size, "--", *words)]
    moved, kept = new_row(case, Way.OUTGROW), new_row(case, Way.OUTGROW)
    try:
        wait_until(lambda: board.ready, "the job's start")
        place.warm(case.size)
        _move(product, board, words, moved, case.limit + 64 * MIB)
        moved["right"] = check(board)
        place.warm(case.size)
        _save_and_resume(product, board, words, kept, keepers)
        kept["right"] = check(board)
        for row, save in zip((moved, kept), product.story(JOB)["saves"], strict=True):
            row["journal"] = [save[f"{step}_seconds"] for step in STEPS]
            row["image_bytes"] = save["bytes"]
    finally:
        product.clear(JOB)
        for keeper in keepers:
            finish(keeper, check=False)
    return [moved, kept]


def _move(product: Product, board: Board, words: list[str], row: Row, limit: int) -> None:
    death = Death(find(words))
    os.sync()
    board.forget()
    asked = product.start("move", JOB, "--memory", f"{limit // MIB}MiB")
    released = death.wait()
    again = runs_again(board, released)
    finish(asked)
    row["save_seconds"] = row["durable_seconds"] = (released - board.pause()[0]) / _NS
    row["resume_seconds"] = (again - released) / _NS


def _save_and_resume(
    product: Product, board: Board, words: list[str], row: Row, keepers: list[Started]
) -> None:
    death = Death(find(words))
    os.sync()
    board.forget()
    asked = product.start("save", JOB, "--stop")
    released = death.wait()
    stood = board.last
    finish(asked)
    finish(keepers[-1], check=False)  # it says how to go on, with a status for that
    began = time.time_ns()
    keepers.append(product.start("resume", JOB))
    row["save_seconds"] = row["durable_seconds"] = (released - stood) / _NS
    row["verified_resume_seconds"] = (runs_again(board, released) - began) / _NS
