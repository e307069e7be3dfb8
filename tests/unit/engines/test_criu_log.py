"""What a CRIU log says went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from outgrow.engines.criu.log import reason

LOGS = Path(__file__).parent / "logs"


REASONS = [
    (
        "no-space",
        "the store is full (Unable to spice data: No space left on device)",
    ),
    (
        "read-only",
        "the store is read-only (Unable to open inventory.img: Read-only file system)",
    ),
    (
        "io-uring",
        "it uses io_uring, which cannot be saved"
        " (Can't dump file 5 of that type [600] (unknown /[io_uring]))",
    ),
    ("pid-in-use", "a PID that the job had is in use (Can't fork for 412: File exists)"),
    (
        "locks",
        "Some file locks are hold by dumping tasks! You can try --file-locks to dump them.",
    ),
    ("restore-mount", "File home/a b/in.txt has bad size 12 (expect 4096)"),
    ("success", "its log names no error"),
    ("empty", "its log names no error"),
    ("cut-off", "Can't lookup mount=29 for fd=3 path=/tmp/caf\ufffd\ufffd"),
    ("absent", "it left no log"),
]


@pytest.mark.parametrize(("log", "expected"), REASONS)
def test_the_reason_is_the_first_error_with_ours_before_it(log: str, expected: str) -> None:
    assert reason(LOGS / f"{log}.log") == expected


def test_every_log_is_in_the_table() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == {log for log, _ in REASONS} - {"absent"}


def test_a_log_that_is_a_directory_is_no_log(tmp_path: Path) -> None:
    assert reason(tmp_path) == "it left no log"
