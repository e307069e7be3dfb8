"""A person at a terminal: she types a line, reads the answer, and types the next."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time

from tests.zoo.zoo import Dialogue

SIZE = (37, 111)
"""Rows and columns: nobody's default."""
PATIENCE = 60.0
PACE = 0.02
"""Seconds between an answer and the next line."""


class Typist:
    """Types a dialogue in a thread of its own. `stream` is the program's end of the terminal.

    One who comes to a program that was `resumed` asks first how far it had come.
    """

    def __init__(self, dialogue: Dialogue, *, resumed: bool = False) -> None:
        self.said = ""
        self.trouble = ""
        self._dialogue = dialogue
        self._resumed = resumed
        self._terminal, self.stream = pty.openpty()
        fcntl.ioctl(self.stream, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._type)
        self._thread.start()

    def finish(self, process: subprocess.Popen[bytes]) -> str:
        """All that came to the terminal, when the dialogue or the process is at its end; what went
        wrong with it otherwise."""
        while self._thread.is_alive() and process.poll() is None:
            self._thread.join(0.1)
        self._thread.join(1.0)
        self.leave()
        return self.trouble or self.said

    def leave(self) -> None:
        """Go away from the terminal, be it in the middle of the dialogue."""
        if self._terminal < 0:
            return
        self._leave.set()
        self._thread.join()
        os.close(self.stream)
        os.close(self._terminal)
        self._terminal = -1

    def _type(self) -> None:
        try:
            lines = self._dialogue.lines
            if self._resumed:
                asked, answer = self._dialogue.where
                lines = lines[int(self._ask(asked, answer).group(1)) :]
            else:
                self._ask("", self._dialogue.ready)
            for line, answer in lines:
                self._ask(line, answer)
                time.sleep(PACE)
        except EOFError as error:
            self.trouble = f"{error}; it said, last: {self.said[-300:]!r}"

    def _ask(self, line: str, answer: str) -> re.Match[str]:
        began = len(self.said)
        pattern = re.compile(answer, re.DOTALL)
        os.write(self._terminal, line.encode())
        end = time.monotonic() + PATIENCE
        while not (found := pattern.search(self.said, began)):
            if self._leave.is_set():
                raise EOFError(f"{line!r} was not answered before the end")
            if time.monotonic() > end:
                raise EOFError(f"{line!r} was not answered within {PATIENCE:g} s")
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.said += os.read(self._terminal, 1 << 16).decode(errors="replace")
        return found
