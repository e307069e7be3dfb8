"""writer.py PATH MIB: append a numbered line to PATH every few milliseconds, while growing.

A stand-in for a job that writes its output as it goes. The lines are numbered without gaps
and depend on nothing but the options, so after a save and a resume PATH must hold the very
bytes that an undisturbed run leaves: no line lost, none twice.

MIB is a bare number of MiB (1 MiB = 1048576 bytes), reached with the last line.

    python3 examples/writer.py /tmp/lines.txt 300                # 10 s, 2000 lines
    python3 examples/writer.py /tmp/lines.txt 300 --seconds 30   # 30 s, 6000 lines
"""

from __future__ import annotations

import argparse
import sys
import time

MIB = 1024 * 1024
SECONDS_PER_LINE = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(description="Append numbered lines while memory grows.")
    parser.add_argument("path", metavar="PATH", help="the file to append to")
    parser.add_argument("mib", metavar="MIB", type=int, help="how far to grow, in MiB")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="default: 10")
    options = parser.parse_args()

    lines = max(1, round(options.seconds / SECONDS_PER_LINE))
    held: list[bytes] = []
    with open(options.path, "a", encoding="ascii") as output:
        for number in range(1, lines + 1):
            due = options.mib * MIB * number // lines - options.mib * MIB * (number - 1) // lines
            held.append(bytes([number % 255 + 1]) * due)
            output.write(f"line {number} of {lines}\n")
            output.flush()
            time.sleep(SECONDS_PER_LINE)
    print("OK")
    return 0


if __name__ == "__main__":
    sys.exit(main())
