"""multiprocessing: a pool, queues, a lock, a shared array and shared memory."""

import hashlib
import multiprocessing as mp
import sys
from multiprocessing import shared_memory


def work(number: int) -> str:
    return hashlib.sha256(str(number).encode() * 600_000).hexdigest()


def count(counter, lock, results, name: str, part: int) -> None:
    memory = shared_memory.SharedMemory(name=name)
    total = 0
    for place in range(part, len(memory.buf), 4):
        total += memory.buf[place]
        with lock:
            counter.value += 1
    memory.close()
    results.put((part, total))


if __name__ == "__main__":
    longer = int((*sys.argv, "1")[1])
    mp.set_start_method("fork")
    with mp.Pool(4) as pool:
        pooled = hashlib.sha256(
            "".join(pool.imap(work, range(1500 * longer), 7)).encode()
        ).hexdigest()
    memory = shared_memory.SharedMemory(create=True, size=400_000)
    memory.buf[:] = bytes(number % 256 for number in range(len(memory.buf)))
    counter, lock, results = mp.Value("q", 0, lock=False), mp.Lock(), mp.Queue()
    workers = [
        mp.Process(target=count, args=(counter, lock, results, memory.name, part))
        for part in range(4)
    ]
    for worker in workers:
        worker.start()
    totals = sorted(results.get() for _ in workers)
    for worker in workers:
        worker.join()
    print("processes", pooled, counter.value, totals, [worker.exitcode for worker in workers])
    memory.close()
    memory.unlink()
