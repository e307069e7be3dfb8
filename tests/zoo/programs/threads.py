"""Threads that hand work on through queues, under locks and conditions."""

import hashlib
import queue
import sys
import threading

WORKERS, ITEMS = 8, 6000 * int((*sys.argv, "1")[1])
todo: queue.Queue[int] = queue.Queue(32)
done: dict[int, str] = {}
lock = threading.Lock()
finished = threading.Condition(lock)


def work() -> None:
    while (item := todo.get()) >= 0:
        digest = hashlib.sha256(str(item).encode() * 150_000).hexdigest()
        with finished:
            done[item] = digest
            finished.notify_all()


threads = [threading.Thread(target=work) for _ in range(WORKERS)]
for thread in threads:
    thread.start()
held = []
for number in range(ITEMS):
    todo.put(number)
    held.append(bytes([number % 251]) * 10_000)
with finished:
    finished.wait_for(lambda: len(done) == ITEMS)
for _ in threads:
    todo.put(-1)
for thread in threads:
    thread.join()
whole = hashlib.sha256()
for number in range(ITEMS):
    assert held[number] == bytes([number % 251]) * 10_000
    whole.update(done[number].encode())
print("threads", whole.hexdigest())
