"""For `python3 -i`: what is typed at its prompt, and what the terminal is like before and after."""

import os
import sys
import termios

heard, value, held = 0, 1, []


def terminal() -> list[object]:
    """Its size as the program sees it, and the modes that readline works in."""
    modes = termios.tcgetattr(0)
    return [os.get_terminal_size(0), *modes[:6], modes[6][:17]]


first = terminal()


def step(number: int) -> None:
    global heard, value
    assert number == heard
    heard, value = heard + 1, value * 31 % 65537
    held.append(b"x" * 400_000)
    print(f"{number}: {value}")


def where() -> None:
    print("heard", heard)


def end() -> None:
    same = terminal() == first and all(os.isatty(stream) for stream in (0, 1))
    print("answer", heard, value, sum(map(len, held)), tuple(os.get_terminal_size(0)), same)
    sys.exit()
