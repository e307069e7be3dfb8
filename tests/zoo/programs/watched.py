"""inotify: each file that is written is heard of exactly once, in order."""

import ctypes
import os
import struct
import sys
import time

COUNT = 250 * int((*sys.argv, "1")[1])
libc = ctypes.CDLL(None)
os.mkdir("folder")
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, b"folder", 0x8)  # IN_CLOSE_WRITE
seen = []


def hear() -> None:
    try:
        data = os.read(watch, 65536)
    except BlockingIOError:
        return
    while data:
        _, _, _, length = struct.unpack_from("iIII", data)
        seen.append(data[16 : 16 + length].rstrip(b"\0").decode())
        data = data[16 + length :]


for number in range(COUNT):
    os.close(os.open(f"folder/{number}", os.O_CREAT | os.O_WRONLY))
    hear()
    time.sleep(0.01)
hear()
print("watched", seen == [str(number) for number in range(COUNT)], len(seen))
