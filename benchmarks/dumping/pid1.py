"""PID 1 of a PID namespace for a job that raw CRIU saves: starts it, and collects what ended.

    python3 pid1.py COMMAND…

The job's streams are opened in this mount namespace, and it leads a session of its own: else CRIU
refuses it.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        os.execv(sys.argv[1], sys.argv[1:])
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    main()
