"""Where a checkpoint may come back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fingerprint:
    """What a process image depends on: the node that it was made on."""

    architecture: str
    kernel: str
    engine: str
    """Engine and version, such as `criu 4.2.1`."""
    cpu_features: frozenset[str] = frozenset()


def misfits(made_on: Fingerprint, here: Fingerprint) -> list[str]:
    """Why a checkpoint of `made_on` cannot run `here`; empty where it can.

    A program may have chosen its code paths by the CPU's features, so that each one that the
    saving node had must be here too. Kernel and engine may be newer, not older.
    """
    reasons = []
    if made_on.architecture != here.architecture:
        reasons.append(f"it was made on {made_on.architecture}, this is {here.architecture}")
    missing = sorted(made_on.cpu_features - here.cpu_features)
    if missing:
        reasons.append(f"this CPU lacks {', '.join(missing)}")
    if _version(here.engine) < _version(made_on.engine):
        reasons.append(f"it was made by {made_on.engine}, this host has {here.engine}")
    if _version(here.kernel)[:2] < _version(made_on.kernel)[:2]:
        reasons.append(f"it was made under Linux {made_on.kernel}, this is {here.kernel}")
    return reasons


def _version(text: str) -> tuple[int, ...]:
    word = text.rsplit(" ", 1)[-1].split("-", 1)[0]
    return tuple(int(part) for part in word.split(".") if part.isascii() and part.isdecimal())
