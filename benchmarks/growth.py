"""The job of the benchmarks: it grows, in a given way at a given rate, and checks every byte.

    python3 growth.py --kind anon --processes 4 --prefill 64 --grow 200 --rate 0.1

Sizes are MiB, the rate is GB/s for all processes together, and 0 means as fast as it goes. When
it has grown it reads all of it back, and prints `OK BYTES` once; on anything else that happened it
says what and ends with status 1. Standard library only, started in 30 ms, and at the speed of C:
each step is one memset, read or write of a whole block.

With `--usage FILE` (memory.usage_in_bytes or memory.current of its own cgroup) each process reads
that file after each block, and notes on the board, a shared page that whoever started the job maps
as well, when it last saw the usage below `--threshold`, when it first saw it above, and when it
last ran at all. These times are the job's own, and outgrow has no part in them.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

MIB = 1 << 20
HUGE = 2 * MIB
SMALL_BLOCK = 128 * 1024
"""Bytes of a step with 4 KiB pages: 60 µs of page faults, the grain of the job's own clock."""
PIPE_SIZE = 1 << 20
"""What a pipe may hold without further privileges (/proc/sys/fs/pipe-max-size)."""
SOCKET_BUFFER = 4 << 20
LONGEST_LIFE = 300
"""Seconds, after which a job that nobody looks after any more ends by itself."""

PREPARING, PREFILLING, GROWING, CHECKING = range(4)
"""Phases of the job, as `Board.phase` says it."""
READY, PREFILLED, GROWN = 1, 2, 3
"""How far one process has come. They wait for each other, so that all hold what they have taken
while the last still grows."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


class Board:
    """A shared page: a head that the job's first process writes, and a row for each that grows."""

    ROW = 8
    """Words of a row: state, bytes, below, above, last, and three to fill a cache line."""

    def __init__(self, processes: int, descriptor: int = -1) -> None:
        self.processes = processes
        self._memory = mmap.mmap(descriptor, self.length(processes))
        self.words = memoryview(self._memory).cast("q")

    @classmethod
    def length(cls, processes: int) -> int:
        """Bytes of the page."""
        return 8 * cls.ROW * (1 + processes)

    @property
    def phase(self) -> int:
        """Where the job is."""
        return self.words[0]

    @phase.setter
    def phase(self, value: int) -> None:
        self.words[0] = value

    @property
    def began(self) -> int:
        """Nanoseconds (CLOCK_MONOTONIC) when it began to grow at its rate."""
        return self.words[2]

    @property
    def hurry(self) -> bool:
        """Whether to grow as fast as it goes from now on: set from outside, after the freeze."""
        return self.words[1] != 0

    @hurry.setter
    def hurry(self, value: bool) -> None:
        self.words[1] = value

    def row(self, number: int) -> memoryview:
        """The row of one process."""
        return self.words[self.ROW * (1 + number) : self.ROW * (2 + number)]

    def all_are(self, state: int) -> bool:
        """Whether every process has come as far as `state`."""
        return all(self.row(number)[0] >= state for number in range(self.processes))

    def bytes(self) -> int:
        """How far the job has grown."""
        return sum(self.row(number)[1] for number in range(self.processes))

    def crossing(self) -> tuple[int, int]:
        """Nanoseconds (CLOCK_MONOTONIC) between which the usage crossed the threshold: the last
        time that any process saw it below, and the first time that one saw it above, or 0 when
        all were stopped before one did."""
        rows = [self.row(number) for number in range(self.processes)]
        above = min((row[3] for row in rows if row[3]), default=0)
        below = max((row[2] for row in rows if not above or row[2] <= above), default=0)
        return below, above

    def speed(self) -> float | None:
        """GB/s since it began to grow at its rate; None before then."""
        seconds = (self.last() - self.began) / 1e9
        return (
            (self.bytes() - self.words[3]) / 1e9 / seconds if self.began and seconds > 0 else None
        )

    def last(self) -> int:
        """Nanoseconds (CLOCK_MONOTONIC) of the last sign of life of any process."""
        return max(self.row(number)[4] for number in range(self.processes))


class Sink(Protocol):
    """Something that takes blocks, and keeps them in memory that is charged to the job."""

    block: int

    def put(self, index: int) -> None:
        """Take block `index`."""

    def wrong(self, count: int) -> str:
        """What is wrong with the first `count` blocks; empty when they are as they were put."""


class Filled:
    """A mapping that is filled by the program itself: every byte of block `index` is the same
    value, but for the first eight, which are the index."""

    def __init__(self, memory: mmap.mmap, offset: int, block: int, seed: int) -> None:
        self.block = block
        self._memory = memory
        self._offset = offset
        self._address = address_of(memory) + offset
        self._words = memoryview(memory)[offset:].cast("q")
        self._seed = seed

    def put(self, index: int) -> None:
        start = index * self.block
        _libc.memset(self._address + start, self._value(index), self.block)
        self._words[start // 8] = index

    def wrong(self, count: int) -> str:
        for index in range(count):
            start = index * self.block
            at = self._address + start + 8
            first = self._memory[self._offset + start + 8]
            # Equal to itself one byte further on: all bytes are the same.
            same = _libc.memcmp(at, at + 1, self.block - 9) == 0
            if not (same and first == self._value(index) and self._words[start // 8] == index):
                return f"block {index} is not what was written"
        return ""

    def _value(self, index: int) -> int:
        return (self._seed * 37 + index * 11 + 1) & 0xFF


class Source:
    """What the kernel copies: words that are all different, so that each block is a window."""

    def __init__(self, path: Path, block: int) -> None:
        self.block = block
        self.size = 2 * block
        if not path.exists():
            words = memoryview(bytearray(self.size)).cast("Q")
            for place in range(len(words)):
                words[place] = place * 0x9E3779B97F4A7C15 & (1 << 64) - 1
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.write_bytes(words.tobytes())
            draft.rename(path)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.memory = mmap.mmap(self.descriptor, self.size, prot=mmap.PROT_READ)
        self.view = memoryview(self.memory)

    def place(self, index: int) -> int:
        """Where block `index` begins in the source."""
        return (index * 5 % (self.block // 8)) * 8

    def piece(self, index: int) -> memoryview:
        """Block `index`."""
        return self.view[self.place(index) : self.place(index) + self.block]

    def holds(self, index: int, got: bytes | bytearray) -> bool:
        """Whether that is block `index`."""
        return got == self.memory[self.place(index) : self.place(index) + self.block]


class Read:
    """Memory that the kernel fills: read(2) into buffers that were never touched."""

    def __init__(self, memory: mmap.mmap, offset: int, source: Source) -> None:
        self.block = source.block
        self._memory = memory
        self._view = memoryview(memory)
        self._offset = offset
        self._source = source

    def put(self, index: int) -> None:
        start = self._offset + index * self.block
        into = self._view[start : start + self.block]
        got = os.preadv(self._source.descriptor, [into], self._source.place(index))
        if got != self.block:
            raise OSError(0, f"read(2) gave {got} of {self.block} bytes")

    def wrong(self, count: int) -> str:
        for index in range(count):
            start = self._offset + index * self.block
            if not self._source.holds(index, self._memory[start : start + self.block]):
                return f"block {index} is not what was read"
        return ""


class Queues:
    """Pipes or sockets, opened one after another, each filled to the brim and never read until
    the end."""

    def __init__(self, source: Source, opened: Callable[[], tuple[int, int]]) -> None:
        self.block = source.block
        self._source = source
        self._open = opened
        self._ends: list[tuple[int, int]] = []

    def put(self, index: int) -> None:
        left = self._source.piece(index)
        while left:
            if not self._ends:
                self._ends.append(self._open())
            try:
                sent = os.write(self._ends[-1][1], left)
            except BlockingIOError:
                self._ends.append(self._open())
                continue
            left = left[sent:]

    def wrong(self, count: int) -> str:
        for _, into in self._ends:
            os.close(into)
        ends = iter(self._ends)
        out = next(ends)[0] if self._ends else -1
        for index in range(count):
            got = bytearray()
            while len(got) < self.block:
                piece = os.read(out, self.block - len(got))
                if not piece:
                    os.close(out)
                    out = next(ends)[0]
                got += piece
            if not self._source.holds(index, got):
                return f"block {index} is not what was sent"
        return ""


class Written:
    """A file that is filled by write(2)."""

    def __init__(self, path: Path, source: Source) -> None:
        self.block = source.block
        self._source = source
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def put(self, index: int) -> None:
        sent = os.pwrite(self._file, self._source.piece(index), index * self.block)
        if sent != self.block:
            raise OSError(0, f"write(2) took {sent} of {self.block} bytes")

    def wrong(self, count: int) -> str:
        for index in range(count):
            got = os.pread(self._file, self.block, index * self.block)
            if not self._source.holds(index, got):
                return f"block {index} is not what was written"
        return ""


KINDS = ("anon", "shared", "file", "tmpfs", "tmpfs-write", "read", "pipe", "socket")


def make_sink(options: argparse.Namespace, number: int, size: int) -> Sink:
    """What process `number` fills, with room for `size` bytes."""
    block = HUGE if options.huge else SMALL_BLOCK
    kind = options.kind
    if kind in ("anon", "shared", "read"):
        memory, offset = anonymous(size, huge=options.huge, shared=kind == "shared")
        if kind == "read":
            return Read(memory, offset, Source(options.folder / f"source-{block}", block))
        return Filled(memory, offset, block, number)
    if kind in ("file", "tmpfs"):
        return Filled(file_mapping(options.folder / f"{kind}-{number}", size), 0, block, number)
    source = Source(options.folder / f"source-{block}", block)
    if kind == "tmpfs-write":
        return Written(options.folder / f"{kind}-{number}", source)
    return Queues(source, open_pipe if kind == "pipe" else open_sockets)


def anonymous(size: int, *, huge: bool, shared: bool) -> tuple[mmap.mmap, int]:
    """A mapping, and the offset in it from which it is aligned to 2 MiB."""
    flags = mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
    memory = mmap.mmap(-1, size + HUGE, flags=flags)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    return memory, -address_of(memory) % HUGE


def file_mapping(path: Path, size: int) -> mmap.mmap:
    """A shared mapping of a new file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.ftruncate(descriptor, size)
    memory = mmap.mmap(descriptor, size)
    os.close(descriptor)
    return memory


def address_of(memory: mmap.mmap) -> int:
    """Where a mapping stands."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def open_pipe() -> tuple[int, int]:
    """Its ends; nobody waits on the one to write to."""
    out, into = os.pipe2(os.O_CLOEXEC)
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    os.set_blocking(into, False)
    return out, into


def open_sockets() -> tuple[int, int]:
    """A connected pair."""
    out, into = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    so_sndbufforce = 32
    into.setsockopt(socket.SOL_SOCKET, so_sndbufforce, SOCKET_BUFFER)
    into.setblocking(False)
    return out.detach(), into.detach()


class Watch:
    """Reads the usage and notes the times in this process's row."""

    def __init__(self, row: memoryview, file: Path | None, threshold: int) -> None:
        self._row = row
        self._usage = os.open(file, os.O_RDONLY | os.O_CLOEXEC) if file else -1
        self._threshold = threshold

    def usage(self) -> int:
        """Bytes charged to the job's cgroup; 0 where it is not to look."""
        return int(os.pread(self._usage, 32, 0)) if self._usage >= 0 else 0

    def look(self) -> None:
        """Note where the usage is."""
        row, before = self._row, time.monotonic_ns()
        usage = self.usage()
        if usage < self._threshold:
            row[2], row[3] = before, 0
        elif not row[3]:
            row[3] = time.monotonic_ns()
        row[4] = time.monotonic_ns()


def grow(options: argparse.Namespace, board: Board, number: int) -> None:
    """The life of one process that grows. Raises OSError, or ValueError for a wrong answer."""
    row = board.row(number)
    block = HUGE if options.huge else SMALL_BLOCK
    prefill, more = blocks(options.prefill, options.grow, board.processes, block)
    count = prefill + more
    sink = make_sink(options, number, count * block)
    watch = Watch(row, options.usage, options.threshold)
    row[0] = READY
    while board.phase < PREFILLING:
        time.sleep(0.001)
    index = 0
    while index < prefill and watch.usage() <= options.threshold - options.margin * MIB:
        sink.put(index)
        index += 1
        row[1] = index * block
    row[0] = PREFILLED
    while board.phase < GROWING:
        time.sleep(0.001)
    step = block * board.processes / (options.rate * 1e9) if options.rate else 0.0
    time.sleep(step * number / board.processes)  # in turn, for an even rate
    while index < count:
        began = time.monotonic()
        watch.look()
        sink.put(index)
        watch.look()
        index += 1
        row[1] = index * block
        if step and not board.hurry:
            time.sleep(max(0.0, began + step - time.monotonic()))
    row[0] = GROWN
    while board.phase < CHECKING:
        time.sleep(0.001)
    wrong = sink.wrong(row[1] // block)
    if wrong:
        raise ValueError(wrong)


def blocks(prefill: int, more: int, processes: int, block: int) -> tuple[int, int]:
    """How many blocks each process prefills, and how many it grows by afterwards."""
    return prefill * MIB // processes // block, -(-more * MIB // processes // block)


def lead(options: argparse.Namespace, board: Board) -> int:
    """Start the processes, take them through the phases, and see them end."""
    children = {}
    for number in range(options.processes):
        child = os.fork()
        if child == 0:
            os._exit(in_child(options, board, number))
        children[child] = number
    for state, phase in ((READY, PREFILLING), (PREFILLED, GROWING), (GROWN, CHECKING)):
        if not wait_for(board, state, children):
            break
        if phase == GROWING:
            board.words[2], board.words[3] = time.monotonic_ns(), board.bytes()
        board.phase = phase
    failed = False
    while children:
        pid, status = os.wait()
        number = children.pop(pid, -1)
        if status and not failed:
            failed = True
            print(f"process {number} ended with wait status {status}", file=sys.stderr, flush=True)
            for other in children:
                os.kill(other, signal.SIGKILL)
    if failed:
        return 1
    print(f"OK {board.bytes()}", flush=True)
    return 0


def in_child(options: argparse.Namespace, board: Board, number: int) -> int:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel may kill the leader, not a child
    signal.alarm(LONGEST_LIFE)
    try:
        grow(options, board, number)
    except (OSError, ValueError) as error:
        print(f"process {number}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def wait_for(board: Board, state: int, children: dict[int, int]) -> bool:
    """Until every process has come as far as `state`; False when one has died before."""
    while not board.all_are(state):
        time.sleep(0.001)
        if any(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) for pid in children):
            return False
    return True


def as_any_job() -> None:
    """Of ordinary standing, whoever started it."""
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    try:
        Path("/proc/self/oom_score_adj").write_text("0")
    except OSError:
        pass  # nobody had lowered it, then
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Grow, check every byte, print OK.")
    parser.add_argument("--kind", choices=KINDS, default="anon")
    parser.add_argument("--huge", action="store_true", help="2 MiB pages, where the kind has them")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--prefill", type=int, default=0, help="MiB at full speed, at first")
    parser.add_argument("--grow", type=int, default=64, help="MiB at the given rate, afterwards")
    parser.add_argument("--rate", type=float, default=0.0, help="GB/s of them together; 0: no end")
    parser.add_argument("--folder", type=Path, default=Path(), help="where its files go")
    parser.add_argument("--board", type=Path, help="a file of the board's size")
    parser.add_argument("--usage", type=Path, help="its cgroup's usage")
    parser.add_argument("--threshold", type=int, default=0, help="bytes of usage to look for")
    parser.add_argument("--margin", type=int, default=16, help="MiB below it where prefill ends")
    return parser.parse_args()


def main() -> int:
    options = parse()
    as_any_job()
    if options.board is None:
        return lead(options, Board(options.processes))
    # Whoever has given it a board looks after it, and it does not outlive that one.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    descriptor = os.open(options.board, os.O_RDWR | os.O_CLOEXEC)
    return lead(options, Board(options.processes, descriptor))


if __name__ == "__main__":
    sys.exit(main())
