"""Round numbers for an axis, and how they are written."""

from __future__ import annotations

import math

from outgrow.core.units import GIB, KIB, MIB, TIB

_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
_HOURS = (3600, 7200, 10_800, 21_600, 43_200)
_DAY = 86_400


def size_ticks(top: float, at_most: int) -> list[int]:
    """Multiples of a power of two from 0 to `top` bytes, at most `at_most` beside the 0."""
    step = 1
    while top // step > at_most:
        step *= 2
    return list(range(0, int(top) + 1, step))


def size_labels(ticks: list[int]) -> list[str]:
    """Sizes in their largest unit, exactly: `768 MiB`, `1 GiB`, `1.25 GiB`."""
    return ["0", *map(_size_label, ticks[1:])]


def time_ticks(span: float, at_most: int) -> list[float]:
    """Round times from 0 to `span` seconds, at most `at_most` beside the 0."""
    step = _time_step(span / max(at_most, 1))
    return [number * step for number in range(math.floor(span / step * (1 + 1e-9)) + 1)]


def time_labels(ticks: list[float]) -> list[str]:
    """Times in one unit for the whole axis: `90 s`, `30 min`, `6 h`, `2 d`."""
    step = ticks[1] if len(ticks) > 1 else 1.0
    if step >= _DAY:
        unit, name = float(_DAY), "d"
    elif step >= 3600:
        unit, name = 3600.0, "h"
    elif step >= 60:
        unit, name = 60.0, "min"
    else:
        unit, name = 1.0, "s"
    return ["0", *(f"{tick / unit:.9g} {name}" for tick in ticks[1:])]


def _size_label(size: int) -> str:
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.12g} {name}"
    return f"{size} B"


def _time_step(least: float) -> float:
    if least > _HOURS[-1]:
        return _DAY * _decimal_step(least / _DAY)
    if least > _SECONDS[-1]:
        return float(next(step for step in _HOURS if step >= least))
    if least > 0.5:
        return float(next(step for step in _SECONDS if step >= least))
    return _decimal_step(max(least, 1e-6))


def _decimal_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((f * power for f in (1, 2, 5) if f * power >= least), 10 * power)
