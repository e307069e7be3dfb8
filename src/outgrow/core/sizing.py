"""How much a job asks for next."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from outgrow.core.errors import Usage
from outgrow.core.units import MIB, format_option, parse_size


@dataclass(frozen=True)
class NextSize:
    """The rule from one request to the next: `factor` times it, then `plus` bytes more."""

    factor: Fraction = Fraction(1)
    plus: int = 0

    def after(self, limit: int) -> int:
        """Bytes of the request that follows `limit`, in whole MiB, always larger than `limit`."""
        wanted = int(limit * self.factor) + self.plus
        rounded = -(-wanted // MIB) * MIB
        return max(rounded, (limit // MIB + 1) * MIB)

    def __str__(self) -> str:
        if self.plus:
            return f"+{format_option(self.plus)}"
        return f"{float(self.factor):.15g}x"


DEFAULT_NEXT_SIZE = NextSize(factor=Fraction(3, 2))
"""1.5x: a job that doubles its memory moves twice, and no step wastes more than half of it."""


def parse_next_size(text: str) -> NextSize:
    """The rule of `1.5x` or `+8GiB`. Raises Usage for anything that would not grow."""
    text = text.strip()
    if text.startswith("+"):
        return NextSize(plus=parse_size(text[1:]))
    if text.endswith(("x", "X")):
        number = text[:-1]
        try:
            factor = Fraction(number) if number.replace(".", "", 1).isdigit() else Fraction(0)
        except ValueError:
            factor = Fraction(0)
        if factor > 64:
            raise Usage(f"next size {text!r} is absurd", remedy="use a factor of at most 64x")
        if factor > 1:
            return NextSize(factor=factor)
    raise Usage(
        f"next size {text!r} is not a growth", remedy="write a factor above 1 (1.5x) or +SIZE"
    )


def next_limit(rule: NextSize, limit: int, cap: int) -> int | None:
    """The limit that follows `limit` under `rule`, at most `cap`; None where the cap is reached."""
    if limit >= cap:
        return None
    return min(rule.after(limit), cap)


NO_LIMIT = (1 << 63) - 4096
"""The kernel's own way to say "unlimited" in memory.limit_in_bytes; cgroup v2 takes it as max."""

DEFAULT_BAND = 32 * MIB
"""A crossing is frozen within a few ms at up to 7 GB/s of growth: 32 MiB holds that, and is
little beside the limits that people ask for (measured in benchmarks/race.py)."""


def band_for(limit: int, wanted: int = DEFAULT_BAND) -> int:
    """Bytes below `limit` at which growth is stopped: `wanted`, at most a quarter of the limit."""
    return min(wanted, limit // 4)
