"""The job itself: what it takes it gives back byte for byte, and its board tells the crossing."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import growth
import pytest
from growth import KINDS, SMALL_BLOCK, Board


def options(kind: str, folder: Path) -> argparse.Namespace:
    return argparse.Namespace(kind=kind, huge=False, folder=folder)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_put_is_found(kind: str, tmp_path: Path) -> None:
    sink = growth.make_sink(options(kind, tmp_path), 3, 8 * SMALL_BLOCK)
    for index in range(8):
        sink.put(index)
    assert sink.wrong(8) == ""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("pipe", "socket")])
def test_what_was_put_elsewhere_is_not(kind: str, tmp_path: Path) -> None:
    sink = growth.make_sink(options(kind, tmp_path), 3, 8 * SMALL_BLOCK)
    for index in range(7):
        sink.put(index)
    assert "block 7" in sink.wrong(8)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_sent_in_another_order_is_wrong(kind: str, tmp_path: Path) -> None:
    sink = growth.make_sink(options(kind, tmp_path), 3, 8 * SMALL_BLOCK)
    for index in (1, 0):
        sink.put(index)
    assert "block 0" in sink.wrong(2)


def test_one_changed_byte_is_found(tmp_path: Path) -> None:
    memory = growth.file_mapping(tmp_path / "file", 2 * SMALL_BLOCK)
    sink = growth.Filled(memory, 0, SMALL_BLOCK, seed=1)
    for index in range(2):
        sink.put(index)
    memory[2 * SMALL_BLOCK - 1] ^= 1
    assert sink.wrong(2) == "block 1 is not what was written"
    memory.flush()


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([(10, 12)], (10, 12), id="one process"),
        pytest.param([(10, 14), (11, 13)], (11, 13), id="the last below, the first above"),
        pytest.param([(10, 14), (20, 0)], (10, 14), id="below again, after a crossing"),
        pytest.param([(10, 0), (11, 0)], (11, 0), id="stopped before anyone saw it"),
    ],
)
def test_the_crossing_lies_between_two_looks(
    rows: list[tuple[int, int]], expected: tuple[int, int]
) -> None:
    board = Board(len(rows))
    for number, (below, above) in enumerate(rows):
        board.row(number)[2], board.row(number)[3] = below, above
    assert board.crossing() == expected


@pytest.mark.parametrize("usage", [99, 100])
def test_a_look_tells_below_from_above(usage: int, tmp_path: Path) -> None:
    file = tmp_path / "usage"
    file.write_text(f"{usage}\n")
    board = Board(1)
    growth.Watch(board.row(0), file, 100).look()
    below, above = board.row(0)[2], board.row(0)[3]
    assert (below > 0, above > 0) == (usage < 100, usage >= 100)
    assert board.last() >= max(below, above)


@pytest.mark.parametrize(
    ("prefill", "more", "processes", "block", "expected"),
    [
        (80, 176, 1, 1 << 20, (80, 176)),
        (80, 176, 64, 2 << 20, (0, 2)),
        (0, 1, 64, 128 << 10, (0, 1)),
    ],
)
def test_shares_of_the_processes(
    prefill: int, more: int, processes: int, block: int, expected: tuple[int, int]
) -> None:
    assert growth.blocks(prefill, more, processes, block) == expected
    assert expected[1] * block * processes >= more << 20


def test_the_whole_job_prints_what_it_holds(tmp_path: Path) -> None:
    words = ["--processes", "3", "--prefill", "3", "--grow", "3", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", growth.__file__, *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"OK {6 << 20}\n", "")


def test_a_job_that_cannot_grow_says_so(tmp_path: Path) -> None:
    missing = tmp_path / "not there"
    done = subprocess.run(
        [sys.executable, "-I", "-S", growth.__file__, "--kind", "file", "--folder", str(missing)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert os.strerror(2) in done.stderr
    assert done.stdout == ""
