"""The job's first process with `--wait-all`: it starts the command, waits for it, and then for all
that the command left behind, which become its children. It is saved with them.

Runs from its own text (`python -I -S -c TEXT DESCRIPTOR PROGRAM ARGUMENT …`), as the job's owner,
who need not be able to read outgrow's files. Standard library only.
"""

import os
import resource
import signal
import sys
from collections.abc import Sequence

_FOR_THE_COMMAND = (
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
"""What outgrow sends to a job's first process."""
_FOR_THE_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)
"""What it sends to its process group, in which the command is, too."""
_EVERYBODY = -1


def main() -> None:
    """See the module. The errno of a failed exec goes to the descriptor."""
    told, program, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    ignored = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]
    command = os.fork()
    if command == 0:
        _become(program, argv, told)
    _wait_for_all(command, ignored)


def _become(program: str, argv: list[str], told: int) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two for itself
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.set_inheritable(told, False)
    with open("/proc/self/environ", "rb") as file:  # without what Python sets for itself
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    environment = {name: value for name, equals, value in entries if name and equals}
    try:
        try:
            os.execve(program, argv, environment)
        except OSError as error:
            if error.errno != 8:  # ENOEXEC: a script that names no interpreter
                raise
        os.execve("/bin/sh", ["/bin/sh", program, *argv[1:]], environment)
    except OSError as error:
        os.write(told, str(error.errno).encode())
    os._exit(127)


def _wait_for_all(command: int, ignored: Sequence[int]) -> None:
    running = True

    def hand_on(number: int, _frame: object) -> None:
        try:
            os.kill(command if running else _EVERYBODY, number)
        except ProcessLookupError:
            pass

    for number in _FOR_THE_COMMAND:
        if number not in ignored:
            signal.signal(number, hand_on)
    for number in _FOR_THE_GROUP:
        signal.signal(number, signal.SIG_IGN)
    _hold_nothing_open()
    status = 0
    while True:
        try:
            pid, ended = os.waitpid(_EVERYBODY, 0)
        except ChildProcessError:
            break
        if pid == command:
            running, status = False, ended
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _hold_nothing_open() -> None:
    """Whoever reads the job's output sees its end when the last of the others has ended."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


if __name__ == "__main__":
    main()
