"""A sheet of terminal cells, so that no line can become wider than it should."""

from __future__ import annotations

from itertools import groupby

from outgrow.picture.text import ascii_only, columns, cut

_COLOURS = {  # ANSI codes (ECMA-48, SGR)
    "title": "1",
    "axis": "2",
    "usage": "36",
    "lost": "31",
    "limit": "33",
    "move": "32",
    "grow": "32",
    "save": "34",
    "killed": "31",
    "end": "1",
}


class Canvas:
    """Cells of one column each, each with a style that may become a colour."""

    def __init__(self, width: int, unicode: bool, ellipsis: str) -> None:
        self.width = width
        self.unicode = unicode
        self.ellipsis = ellipsis
        self.rows: list[list[tuple[str, str]]] = []

    def add(self) -> int:
        self.rows.append([(" ", "")] * self.width)
        return len(self.rows) - 1

    def drawable(self, text: str) -> str:
        return text if self.unicode else ascii_only(text)

    def write(self, row: int, column: int, text: str, style: str = "") -> None:
        """Writes plain text. What does not fit is cut."""
        cells = self.rows[row]
        for ch in cut(self.drawable(text), self.width - column, self.ellipsis):
            wide = columns(ch)
            if wide == 0:
                if column > 0:
                    cells[column - 1] = (cells[column - 1][0] + ch, cells[column - 1][1])
                continue
            cells[column] = (ch, style)
            if wide == 2:
                cells[column + 1] = ("", style)
            column += wide

    def lines(self, color: bool) -> list[str]:
        return [_line(cells, color) for cells in self.rows]


def _line(cells: list[tuple[str, str]], color: bool) -> str:
    used = len(cells)
    while used and cells[used - 1][0] == " ":
        used -= 1
    parts = []
    for style, group in groupby(cells[:used], key=lambda cell: cell[1]):
        text = "".join(ch for ch, _ in group)
        code = _COLOURS.get(style) if color and text.strip() else None
        parts.append(f"\x1b[{code}m{text}\x1b[0m" if code else text)
    return "".join(parts)
