"""A process of some GiB, of which every byte is looked at in the end."""

import ctypes
import mmap
import sys
import time

MIB = 1 << 20
BLOCK = 4 * MIB
COUNT = int(sys.argv[1]) * MIB // BLOCK

libc = ctypes.CDLL(None)
libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
memory = mmap.mmap(-1, COUNT * BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for number in range(COUNT):
    libc.memset(first + number * BLOCK, (number * 37 + 11) & 0xFF, BLOCK)
for _ in range(100):
    time.sleep(0.02)
good = 0
for number in range(COUNT):
    start = first + number * BLOCK
    value = ctypes.string_at(start, 1)[0]
    # Equal to itself one byte further on: all bytes are the same.
    same = libc.memcmp(start, start + 1, BLOCK - 1) == 0
    good += same and value == (number * 37 + 11) & 0xFF
print("large", good, COUNT)
