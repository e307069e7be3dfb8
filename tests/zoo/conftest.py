"""The zoo runs where the host tier does, and by the same fixtures."""

from __future__ import annotations

import os
import random

import pytest

from tests.host.conftest import _host, outgrow

__all__ = ["_host", "outgrow"]


def pytest_report_header() -> str:
    return f"zoo: OUTGROW_ZOO_SEED={seed()}"


def seed() -> int:
    """Of the instants at which programs are moved; another one each time unless it is set."""
    return _SEED


_SEED = int(os.environ.get("OUTGROW_ZOO_SEED") or random.SystemRandom().randrange(10**6))


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """The same instants for the same seed and test."""
    return random.Random(f"{_SEED} {request.node.name}")
