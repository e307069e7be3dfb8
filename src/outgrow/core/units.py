"""Sizes and durations as people write them.

A size always carries a unit, and the unit is binary as in Slurm: `512MiB`, `512M`, `4G` = 4 GiB.
`MB` and `GB` are refused rather than guessed at: half of the world means 2**20 by them.
"""

from __future__ import annotations

import re

from outgrow.core.errors import Usage

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

_UNITS = {"B": 1, "K": KIB, "KIB": KIB, "M": MIB, "MIB": MIB, "G": GIB, "GIB": GIB}
_UNITS |= {"T": TIB, "TIB": TIB}
_DECIMAL = {"KB": "KiB", "MB": "MiB", "GB": "GiB", "TB": "TiB"}
_LARGEST = 1 << 50
"""1 PiB: no single host has it, so a larger number is a slip of the keyboard."""

_MOST_DIGITS = 30
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(text: str) -> int:
    """Bytes of a size such as `512MiB` or `1.5G`.

    Raises Usage for a bare number (naming the reading that was probably meant), an unknown or
    ambiguous unit, zero, and anything over 1 PiB.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise Usage(f"{text!r} is not a size", remedy="write a number and a unit, such as 512MiB")
    number, unit = match.groups()
    if not unit:
        raise Usage(
            f"{text!r} has no unit", remedy=f"did you mean {number}MiB (what Slurm would read)?"
        )
    if unit.upper() in _DECIMAL:
        meant = _DECIMAL[unit.upper()]
        raise Usage(
            f"{text!r} is ambiguous: {unit} is a power of 10 to some and of 2 to others",
            remedy=f"did you mean {number}{meant}?",
        )
    factor = _UNITS.get(unit.upper())
    if factor is None:
        raise Usage(f"{text!r} has an unknown unit {unit!r}", remedy="use KiB, MiB, GiB or TiB")
    size = _scaled(number, factor) if len(number) <= _MOST_DIGITS else _LARGEST + 1
    if size <= 0:
        raise Usage(f"{text!r} is no memory at all", remedy="give a size above zero")
    if size > _LARGEST:
        raise Usage(f"{text!r} is more than any host has", remedy="check the number and the unit")
    return size


def _scaled(number: str, factor: int) -> int:
    whole, _, fraction = number.partition(".")
    size = int(whole) * factor
    if fraction:
        size += int(fraction) * factor // 10 ** len(fraction)
    return size


def format_size(size: int) -> str:
    """A size for people: `384 MiB`, `1.5 GiB`; at most one decimal, never rounded up to a lie."""
    sign = "-" if size < 0 else ""
    size = abs(size)
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            tenths = size * 10 // unit
            whole, tenth = divmod(tenths, 10)
            return f"{sign}{whole} {name}" if tenth == 0 else f"{sign}{whole}.{tenth} {name}"
    return f"{sign}{size} B"


def format_option(size: int) -> str:
    """A size that `parse_size` reads back exactly, for command lines: `384MiB`, `12345B`."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `500ms`, `30s`, `1h30m`. Raises Usage for anything else."""
    text = text.strip()
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Usage(f"{text!r} is not a duration", remedy="write 500ms, 30s, 10m, 1h30m or 2d")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def format_seconds(seconds: float) -> str:
    """A duration for people: `87 ms`, `1.9 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
