"""Fixtures for trees of files."""

from __future__ import annotations

import pytest

from outgrow.kernel import cgroup_v1, cgroup_v2

from .trees import KernelWrites


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> KernelWrites:
    """What the cgroup code writes from here on."""
    noted = KernelWrites()
    monkeypatch.setattr(cgroup_v1, "write", noted)
    monkeypatch.setattr(cgroup_v2, "write", noted)
    return noted
