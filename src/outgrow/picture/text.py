"""Text of others made fit to draw: titles and labels come from users and job scripts."""

from __future__ import annotations

import textwrap
import unicodedata


def plain(text: str) -> str:
    """One line without control, format, surrogate and unassigned characters.

    What is left can neither steer a terminal (ESC, direction marks) nor break XML 1.0.
    """
    spaced = "".join(" " if ch.isspace() else ch for ch in text)
    clean = "".join(ch for ch in spaced if unicodedata.category(ch)[0] != "C")
    return " ".join(clean.split())


def ascii_only(text: str) -> str:
    return text.encode("ascii", "replace").decode("ascii")


def columns(text: str) -> int:
    """How many columns of a terminal a plain text takes."""
    return sum(map(_columns_of, text))


def cut(text: str, most: int, ellipsis: str = "…") -> str:
    """The text, or its beginning with an ellipsis, in at most `most` columns."""
    if columns(text) <= most:
        return text
    if columns(ellipsis) > most:
        ellipsis = ""
    left = most - columns(ellipsis)
    kept = ""
    for ch in text:
        left -= _columns_of(ch)
        if left < 0:
            break
        kept += ch
    return kept.rstrip() + ellipsis


def wrapped(text: str, most: int, lines: int, ellipsis: str = "…") -> list[str]:
    """The text in at most `lines` lines of at most `most` columns, the last cut if need be."""
    if most < 1 or lines < 1:
        return []
    folded = textwrap.wrap(text, most)
    if len(folded) > lines:
        folded = [*folded[: lines - 1], " ".join(folded[lines - 1 :])]
    return [cut(line, most, ellipsis) for line in folded]


def _columns_of(ch: str) -> int:
    if unicodedata.category(ch) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(ch) in "WF" else 1
