"""The zoo runs where the host tier does, and by the same fixtures."""

from __future__ import annotations

import pytest

from tests.host.conftest import _host, outgrow
from tests.zoo.cases import Zoo, seed

__all__ = ["_host", "outgrow"]

_SEED = seed()


def pytest_report_header() -> str:
    return f"zoo: OUTGROW_ZOO_SEED={_SEED}"


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """All programs, undisturbed once each."""
    return Zoo(tmp_path_factory.mktemp("undisturbed"), _SEED)
