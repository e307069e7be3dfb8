"""Values of the core as the JSON that the journal keeps, and back.

With the standard library's json, because command lines and paths may hold bytes that are no valid
UTF-8, which Python carries as lone surrogates and msgspec refuses.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.core.lifecycle import State
from outgrow.core.policy import Action, LimitPolicy, SavePolicy
from outgrow.core.sizing import NextSize


def encode(value: Job | Incarnation | Checkpoint | SaveRecord) -> str:
    """One value."""
    return json.dumps(asdict(value), default=_plain)


def decode_job(text: str) -> Job:
    """A job that `encode` wrote."""
    data = json.loads(text)
    policy = data["policy"]
    rule = policy["next_size"]
    policy["next_size"] = NextSize(Fraction(rule["factor"]), rule["plus"])
    policy["on_limit"] = tuple(Action(word) for word in policy["on_limit"])
    data["policy"] = LimitPolicy(**policy)
    data["saving"] = SavePolicy(**data.get("saving", {}))
    data["state"] = State(data["state"])
    data["command"] = tuple(data["command"])
    return Job(**data)


def decode_incarnation(text: str) -> Incarnation:
    """An incarnation that `encode` wrote."""
    data = json.loads(text)
    data["cgroups"] = tuple(data["cgroups"])
    return Incarnation(**data)


def decode_checkpoint(text: str) -> Checkpoint:
    """A checkpoint that `encode` wrote."""
    return Checkpoint(**json.loads(text))


def decode_save(text: str) -> SaveRecord:
    """A save record that `encode` wrote."""
    return SaveRecord(**json.loads(text))


def _plain(value: object) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in the journal")
