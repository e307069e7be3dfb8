"""`python -m outgrow.agent.examination.filler JOIN… SIZE`: joins the cgroups whose files are JOIN,
and fills SIZE MiB of memory once a byte arrives on standard input, saying so on standard output.

It dies with whoever started it, even where the kernel holds it at its limit.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from outgrow import libc

_MIB = 1 << 20


def main() -> None:
    """See the module."""
    *join, size = sys.argv[1:]
    ctypes.CDLL(None).prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    for file in join:
        with open(file, "w", encoding="ascii") as procs:
            procs.write("0")
    os.write(1, b"ready\n")
    if not os.read(0, 1):
        return
    held = []
    for _ in range(int(size)):
        held.append(b"x" * _MIB)  # written to, so that every page is there
    os.write(1, b"full\n")
    os.read(0, 1)


if __name__ == "__main__":
    main()
