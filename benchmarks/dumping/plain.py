"""As many plain bytes: written to a file with fsync, and read back from the page cache, where a
resume that follows its save finds the images as well."""

from __future__ import annotations

import os
import time

from frame import Row
from holding import BLOCK, first_block
from racing.place import Place

from dumping.cases import Case, Way, new_row
from dumping.held import warm_up


def measure(case: Case, place: Place) -> list[Row]:
    """One row."""
    row = new_row(case, Way.PLAIN)
    path = place.disk / "plain"
    block = bytearray(first_block(case.kind))
    warm_up(place, case.size)
    os.sync()
    try:
        began = time.monotonic()
        with path.open("wb", buffering=0) as file:
            for _ in range(case.size // BLOCK):
                file.write(block)
            row["save_seconds"] = time.monotonic() - began
            os.fsync(file.fileno())
        row["durable_seconds"] = time.monotonic() - began
        began = time.monotonic()
        with path.open("rb", buffering=0) as file:
            count = 0
            while got := file.readinto(block):
                count += got
        row["resume_seconds"] = time.monotonic() - began
        row["image_bytes"], row["right"] = count, count == case.size
    finally:
        path.unlink(missing_ok=True)
    return [row]
