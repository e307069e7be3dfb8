"""`python -m outgrow.launcher.relay`: copies standard input to standard output until either ends.

It stands outside of the job, so that a stream which no engine can write down stays where it is.
"""

from __future__ import annotations

import os

_PIECE = 1 << 16


def relay(source: int, target: int) -> None:
    """Copy until `source` ends or nobody reads `target`."""
    try:
        while piece := os.read(source, _PIECE):
            view = memoryview(piece)
            while view:
                view = view[os.write(target, view) :]
    except (BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    relay(0, 1)
