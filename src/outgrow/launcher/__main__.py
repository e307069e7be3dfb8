"""`python -m outgrow.launcher FD`: become PID 1 of a job, by the plan that FD holds."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from outgrow import libc
from outgrow.launcher import records, wire
from outgrow.launcher.init import Init


def main() -> None:
    """Read the plan from the descriptor named on the command line, and become the job's PID 1."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        plan = json.loads(file.read())
    to_outgrow = socket.socket(fileno=plan["socket"])
    os.umask(0o077)
    os.setsid()
    try:
        held = records.Lock(Path(plan["run"]) / records.LOCK)
    except OSError as error:
        wire.send(to_outgrow, event="failed", what="lock", errno=error.errno)
        os._exit(1)
    try:
        libc.unshare(libc.CLONE_NEWPID | libc.CLONE_NEWNS)
    except OSError as error:
        wire.send(to_outgrow, event="failed", what="namespaces", errno=error.errno)
        os._exit(1)
    pid = os.fork()
    if pid:
        wire.send(to_outgrow, event="init", pid=pid)
        os._exit(0)
    try:
        _own_mounts()
        libc.set_process_name("outgrow-init")
        Init(plan, to_outgrow, held).run()
    except OSError as error:
        wire.send(to_outgrow, event="failed", what=str(error), errno=error.errno)
    finally:
        os._exit(1)


def _own_mounts() -> None:
    """Later mounts of the host are still seen; the job's own stay inside."""
    libc.mount(None, "/", None, libc.MS_REC | libc.MS_SLAVE)
    flags = libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
    libc.mount("proc", "/proc", "proc", flags)


if __name__ == "__main__":
    main()
