"""A log, a deleted temporary file, a file rewritten in place, a mapped array, locks on files."""

import fcntl
import hashlib
import mmap
import os
import sys
import tempfile
import time

ROUNDS = 300 * int((*sys.argv, "1")[1])
log = open("log.txt", "a")
scratch = tempfile.TemporaryFile(dir=".")
table = open("table.bin", "w+b")
table.write(bytes(100_000))
with open("array.bin", "w+b") as file:
    file.truncate(1 << 20)
    array = mmap.mmap(file.fileno(), 1 << 20)
locked = open("lock", "w")
fcntl.flock(locked, fcntl.LOCK_EX)
for number in range(ROUNDS):
    log.write(f"line {number}\n")
    log.flush()
    scratch.write(f"{number} ".encode() * 50)
    table.seek(number * 331 % 99_000)
    table.write(f"record {number}".encode())
    table.flush()
    array[number * 3001 % (1 << 20)] = number % 256
    time.sleep(0.01)
scratch.seek(0)
table.seek(0)
with open("lock") as other:
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("the lock was lost")
    except BlockingIOError:
        print("the lock holds")
for name, data in (("scratch", scratch.read()), ("table", table.read()), ("array", array[:])):
    print(name, hashlib.sha256(data).hexdigest())
with open("log.txt") as file:
    print("log", file.read().splitlines() == [f"line {number}" for number in range(ROUNDS)])
print("links", os.fstat(scratch.fileno()).st_nlink)
