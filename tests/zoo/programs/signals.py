"""Signals: queued, blocked and pending, interval timers, a handler's stack, SIGCHLD, alarms."""

import os
import signal
import sys
import time

heard = {signal.SIGUSR1: 0, signal.SIGALRM: 0, signal.SIGCHLD: 0}


def hear(number: int, _: object) -> None:
    heard[signal.Signals(number)] += 1


for number in heard:
    signal.signal(number, hear)
first, last = signal.SIGRTMIN + 3, signal.SIGRTMIN + 4
signal.pthread_sigmask(signal.SIG_BLOCK, {first, last})
for _ in range(50):
    os.kill(os.getpid(), first)  # queued, and pending over whatever happens
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
end = time.monotonic() + 2.5 * int((*sys.argv, "1")[1])
children = 0
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        os.kill(os.getppid(), signal.SIGUSR1)
        os._exit(3)
    while True:
        try:
            _, status = os.waitpid(pid, 0)
            break
        except InterruptedError:
            continue
    assert os.waitstatus_to_exitcode(status) == 3
    children += 1
    time.sleep(0.005)
signal.setitimer(signal.ITIMER_REAL, 0)
queued = 0
while signal.sigtimedwait({first, last}, 0):
    queued += 1
print("signals", queued, heard[signal.SIGUSR1] == children, heard[signal.SIGALRM] > 50)
print("left", signal.getitimer(signal.ITIMER_REAL), sorted(signal.sigpending()))
