"""A process for the cgroup's suite: it joins by the files on its command line, and then does what
each line of its standard input says, answering each with a line."""

import os
import sys

KEPT = []

for file in sys.argv[1:]:
    descriptor = os.open(file, os.O_WRONLY)
    os.write(descriptor, b"0")
    os.close(descriptor)
print(os.getpid(), flush=True)
for line in sys.stdin:
    verb, _, rest = line.strip().partition(" ")
    if verb == "fill":
        size = int(rest)
        block = bytearray(size)
        for at in range(0, size, 4096):
            block[at] = 1
        KEPT.append(block)
    elif verb == "cache":
        # Written and synced here, so that its pages are clean and charged to this cgroup.
        length, _, path = rest.partition(" ")
        with open(path, "wb") as cached:
            for _ in range(int(length) >> 20):
                cached.write(bytes(1 << 20))
            cached.flush()
            os.fsync(cached.fileno())
    print(verb, flush=True)
