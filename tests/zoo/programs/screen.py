"""curses: a screen that is drawn by differences, keys one by one, no echo."""

import curses
import os
import termios


def play(window: "curses.window") -> str:
    window.addstr(0, 0, "ready")
    window.refresh()
    modes, size, sizes = termios.tcgetattr(0), window.getmaxyx(), 0
    keys, value, held = 0, 1, []
    while (key := window.getch()) != ord("q"):
        if key == curses.KEY_RESIZE:
            sizes += 1
        elif key == ord("?"):
            window.addstr(2, 0, f"heard {keys} keys")
            window.clrtoeol()
            window.redrawwin()
        else:
            keys, value = keys + 1, (value * 31 + key) % 65537
            held.append(b"x" * 400_000)
            window.addstr(keys % size[0], keys % (size[1] - 20), f"{value:6d} <{keys}>")
        window.refresh()
    same = (
        termios.tcgetattr(0) == modes
        and window.getmaxyx() == size == tuple(os.get_terminal_size(0))[::-1]
    )
    return f"answer {keys} {value} {sum(map(len, held))} {size} {sizes} {same}"


before = termios.tcgetattr(0)
answer = curses.wrapper(play)
print()
print(answer, termios.tcgetattr(0) == before)
