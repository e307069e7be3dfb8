"""Runs this boot's scripts one after another and sends what they say to the host.

Reads `/opt/outgrow/vm/plan`, a line `NUMBER SECONDS` for each script, which is `NUMBER.sh` beside
it. Writes frames to the virtio port `outgrow.results`, as they come, so that a machine that hangs
has still told what it could. A frame is a line `NUMBER KIND LENGTH` and LENGTH bytes:

    up   seconds since the kernel started       (before the first script)
    out  a piece of the script's output         (standard output and error, as they came)
    end  exit status and seconds, or `late` and seconds when the script ran past its time

A script's background processes live on after it, as on any host, though its output is closed then.
One that runs past its time is killed together with every process that was started since it began.
"""

import os
import select
import signal
import subprocess
import time
from pathlib import Path

HERE = Path("/opt/outgrow/vm")
PORT = "outgrow.results"
PIECE = 65536  # what a pipe holds
KERNEL_THREADS = 2  # the parent of all of them


def main() -> None:
    port = os.open(_port(), os.O_WRONLY)
    uptime = Path("/proc/uptime").read_text().split()[0]
    _send(port, "0", "up", uptime.encode())
    for line in (HERE / "plan").read_text().splitlines():
        number, seconds = line.split()
        run(port, number, float(seconds))


def run(port: int, number: str, limit: float) -> None:
    """Run one script to its end or its limit, sending its output while it comes."""
    before = _processes()
    started = time.monotonic()
    script = subprocess.Popen(
        ["/bin/bash", str(HERE / f"{number}.sh")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/root",
        start_new_session=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/root",
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
        },
    )
    assert script.stdout is not None
    output = script.stdout.fileno()
    os.set_blocking(output, False)
    ended = os.pidfd_open(script.pid)
    waiting = select.poll()
    waiting.register(output, select.POLLIN)
    waiting.register(ended, select.POLLIN)

    while True:
        left = started + limit - time.monotonic()
        ready = dict(waiting.poll(max(0, left) * 1000))
        if output in ready and not _pass_on(port, number, output):
            waiting.unregister(output)  # closed by all who had it; the script may go on
        if ended in ready or left <= 0:
            break

    if ended in ready:
        outcome = str(_status(script.wait()))
    else:
        outcome = "late"
        _kill(_processes() - before)
        script.wait()
    _pass_on(port, number, output)  # what was written and not yet read: a pipe holds one piece
    _send(port, number, "end", f"{outcome} {time.monotonic() - started:.3f}".encode())
    os.close(ended)
    script.stdout.close()


def _pass_on(port: int, number: str, output: int) -> bool:
    """Send one piece of output; False when there is none now, or never will be."""
    try:
        piece = os.read(output, PIECE)
    except BlockingIOError:
        return False
    if piece:
        _send(port, number, "out", piece)
    return bool(piece)


def _send(port: int, number: str, kind: str, data: bytes) -> None:
    frame = f"{number} {kind} {len(data)}\n".encode() + data
    while frame:
        frame = frame[os.write(port, frame) :]


def _status(returned: int) -> int:
    """As a shell reports it: 128 + N for a script that signal N ended."""
    return returned if returned >= 0 else 128 - returned


def _processes() -> set[int]:
    """The processes there are, kernel threads left out."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        parent = int(stat.rpartition(")")[2].split()[1])
        if parent != KERNEL_THREADS and int(entry) != KERNEL_THREADS:
            found.add(int(entry))
    return found


def _kill(processes: set[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _port() -> Path:
    """The port's device; there is no udev here to name it."""
    for name in Path("/sys/class/virtio-ports").glob("*/name"):
        if name.read_text().strip() == PORT:
            return Path("/dev", name.parent.name)
    raise SystemExit(f"vm: no virtio port is named {PORT}")


if __name__ == "__main__":
    main()
