"""200 processes and 500 threads, all alive at once, in a tree of three levels."""

import os
import sys
import threading
import time

BRANCHES, LEAVES, THREADS = 10, 19, 50
release = threading.Event()


def leaf(number: int) -> int:
    total = 0
    for step in range(60):
        total = (total * 31 + number * step) % 251
        time.sleep(0.05)
    return total


def branch(number: int) -> int:
    pids = []
    for child in range(LEAVES):
        pid = os.fork()
        if pid == 0:
            os._exit(leaf(number * LEAVES + child))
        pids.append(pid)
    totals = [0] * THREADS

    def run(place: int) -> None:
        totals[place] = leaf(place)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    total = sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
    for thread in threads:
        thread.join()
    return (total + sum(totals)) % 251


sys.stdout.flush()
branches = []
for number in range(BRANCHES):
    pid = os.fork()
    if pid == 0:
        os._exit(branch(number))
    branches.append(pid)
print("crowd", [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in branches])
