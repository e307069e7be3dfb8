"""The example programs, run as a user runs them, with small sizes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
WHERE = {"analysis.py": EXAMPLES.parent / "src" / "outgrow" / "demo"}
MIB = 1 << 20


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WHERE.get(name, EXAMPLES) / name), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


class TestGrow:
    def test_ends_with_ok_and_says_nothing_else(self) -> None:
        done = run("grow.py", "20", "--seconds", "0")
        assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")

    def test_progress_goes_to_standard_error(self) -> None:
        done = run("grow.py", "20", "--seconds", "0", "--verbose")
        assert done.stdout == "OK\n"
        assert done.stderr == "filled 16 of 20 MiB\nfilled 20 of 20 MiB\n"

    @pytest.mark.parametrize("size", ["0", "-1", "20M", "20MiB", "1.5", "many"])
    def test_refuses_what_is_no_number_of_mib(self, size: str) -> None:
        assert run("grow.py", size).returncode == 2

    def test_takes_little_more_memory_than_it_fills(self) -> None:
        """Asked of the kernel by a parent that runs nothing else: 96 MiB plus an interpreter."""
        ask = (
            "import resource, subprocess, sys;"
            "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        grow = [sys.executable, str(EXAMPLES / "grow.py"), "96", "--seconds", "0"]
        done = subprocess.run(
            [sys.executable, "-c", ask, *grow], capture_output=True, text=True, check=True
        )
        assert 96 * MIB < int(done.stdout) * 1024 < 128 * MIB

    def test_every_page_is_different_and_none_is_zero(self) -> None:
        grow = load("grow.py")
        pages = {grow["page"](block, number) for block in range(3) for number in range(4096)}
        assert len(pages) == 3 * 4096
        assert not any(page.count(0) > 64 * 8 for page in pages)

    @pytest.mark.parametrize("at", [0, 5000, MIB - 1])
    def test_finds_a_single_wrong_byte(self, at: int) -> None:
        grow = load("grow.py")
        block = grow["filled"](2, MIB)
        assert grow["first_difference"](2, block) is None
        right = block[at]
        block[at] ^= 1
        assert grow["first_difference"](2, block) == (
            f"block 2, page {at // 4096}, byte {at % 4096}: "
            f"expected 0x{right:02x}, found 0x{right ^ 1:02x}"
        )

    def test_finds_a_block_in_the_place_of_another(self) -> None:
        grow = load("grow.py")
        assert grow["first_difference"](1, grow["filled"](0, MIB)) is not None

    def test_a_difference_ends_it_with_1_and_without_ok(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        grow = load("grow.py")
        sound = grow["filled"]
        monkeypatch.setitem(grow["main"].__globals__, "filled", lambda n, size: sound(n + 1, size))
        monkeypatch.setattr(sys, "argv", ["grow.py", "1", "--seconds", "0"])
        assert grow["main"]() == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("block 0, page 0, byte 0: expected")


class TestWriter:
    def test_writes_numbered_lines_without_a_gap(self, tmp_path: Path) -> None:
        path = tmp_path / "lines.txt"
        done = run("writer.py", str(path), "8", "--seconds", "0.2")
        assert (done.returncode, done.stdout, done.stderr) == (0, "OK\n", "")
        assert path.read_text() == "".join(f"line {n} of 40\n" for n in range(1, 41))

    def test_appends(self, tmp_path: Path) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("before\n")
        run("writer.py", str(path), "1", "--seconds", "0.01")
        assert path.read_text() == "before\nline 1 of 2\nline 2 of 2\n"

    def test_each_line_is_in_the_file_before_the_next(self, tmp_path: Path) -> None:
        """Read through a pipe: the first line arrives long before the program could end."""
        path = tmp_path / "lines.fifo"
        os.mkfifo(path)
        writer = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "writer.py"), str(path), "1", "--seconds", "600"]
        )
        try:
            with path.open() as lines:
                assert lines.readline() == "line 1 of 120000\n"
        finally:
            writer.kill()
            writer.wait()


class TestAnalysis:
    SCALE = ("--scale", "0.01")
    DIGEST = "af9fb914f081bd6a4a37ee4c2165b7e63ada3d9140a184a46add46ef89facd64"

    def test_the_answer_never_changes(self) -> None:
        """Also not with the hash seed. Another digest here means another demo: say so."""
        one = run("analysis.py", *self.SCALE, PYTHONHASHSEED="1")
        other = run("analysis.py", *self.SCALE, PYTHONHASHSEED="2")
        assert one.returncode == 0
        assert one.stdout == other.stdout
        assert one.stdout.splitlines()[-1] == f"sha256 of the full result: {self.DIGEST}"

    def test_the_report_is_short_and_progress_is_apart(self) -> None:
        done = run("analysis.py", *self.SCALE)
        assert done.stdout.startswith("12000 orders in ")
        assert len(done.stdout.splitlines()) < 10
        steps = done.stderr.splitlines()
        assert [line[:5] for line in steps] == [f"[{n}/8]" for n in range(1, 9)]

    @pytest.mark.parametrize("scale", ["0", "-1", "101", "nan", "big"])
    def test_refuses_a_scale_that_makes_no_sense(self, scale: str) -> None:
        assert run("analysis.py", "--scale", scale).returncode == 2


def load(name: str) -> dict[str, Any]:
    """The names of an example, without running it."""
    return runpy.run_path(str(EXAMPLES / name), run_name="example")
