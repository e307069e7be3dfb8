"""grow.py MIB: fill MIB MiB of memory step by step, check every byte of it, print OK.

A stand-in for a job whose memory grows. If it is saved, moved and resumed anywhere in
between, the check at its end shows whether every byte of its memory came along.

MIB is a bare number of MiB (1 MiB = 1048576 bytes). The memory beyond it is that of the
Python interpreter, about 10 MiB.

    python3 examples/grow.py 400                 # about 2 s
    python3 examples/grow.py 400 --seconds 20    # the filling takes 20 s

Exit status: 0 and OK on standard output, or 1 and the first difference on standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b

MIB = 1024 * 1024
BLOCK = 16 * MIB
PAGE = 4096
SECONDS_PER_STEP = 0.04


def main() -> int:
    options = parse()
    blocks: list[bytearray] = []
    sizes = list(block_sizes(options.mib))
    pace = SECONDS_PER_STEP if options.seconds is None else options.seconds / len(sizes)
    for index, size in enumerate(sizes):
        started = time.monotonic()
        blocks.append(filled(index, size))
        if options.verbose:
            done = sum(map(len, blocks)) // MIB
            print(f"filled {done} of {options.mib} MiB", file=sys.stderr, flush=True)
        # Paced step by step, not by a deadline: a job that was frozen for a minute must not
        # make up for it by growing in one burst.
        time.sleep(max(0.0, pace - (time.monotonic() - started)))
    for index, block in enumerate(blocks):
        difference = first_difference(index, block)
        if difference is not None:
            print(difference, file=sys.stderr)
            return 1
    print("OK", flush=True)
    return 0


def block_sizes(mib: int) -> Iterator[int]:
    """Whole blocks, then what is left: together exactly `mib` MiB."""
    left = mib * MIB
    while left > 0:
        yield min(BLOCK, left)
        left -= BLOCK


def filled(index: int, size: int) -> bytearray:
    """A block whose every page depends on `index` and on the page's place. Filled in place."""
    block = bytearray(size)
    for number in range(size // PAGE):
        block[number * PAGE : (number + 1) * PAGE] = page(index, number)
    return block


def first_difference(index: int, block: bytearray) -> str | None:
    """None if every byte of the block is what `filled` put there."""
    for number in range(len(block) // PAGE):
        expected = page(index, number)
        found = block[number * PAGE : (number + 1) * PAGE]
        if found == expected:
            continue
        at = next(i for i in range(PAGE) if found[i] != expected[i])
        return (
            f"block {index}, page {number}, byte {at}: "
            f"expected 0x{expected[at]:02x}, found 0x{found[at]:02x}"
        )
    return None


def page(index: int, number: int) -> bytes:
    """One page: the 64-byte hash of its address, over and over. About 1 microsecond."""
    seed = index.to_bytes(8, "little") + number.to_bytes(8, "little")
    return blake2b(seed).digest() * (PAGE // 64)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fill memory, check every byte, print OK.")
    parser.add_argument("mib", metavar="MIB", type=positive, help="how much to fill, in MiB")
    parser.add_argument(
        "--seconds",
        type=seconds,
        metavar="S",
        help=f"how long the filling takes (default: {SECONDS_PER_STEP} s for each 16 MiB)",
    )
    parser.add_argument("--verbose", action="store_true", help="progress on standard error")
    return parser.parse_args()


def positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of MiB, 1 or more")
    return int(text)


def seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1e6:
        raise argparse.ArgumentTypeError("between 0 and 1000000 s")
    return number


if __name__ == "__main__":
    sys.exit(main())
