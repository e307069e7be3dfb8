"""Fixtures for trees of files."""

from __future__ import annotations

import pytest

from outgrow.kernel.files import Files

from .trees import KernelWrites


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> KernelWrites:
    """What the cgroup code writes from here on."""
    noted = KernelWrites()
    monkeypatch.setattr(Files, "write", lambda _, path, text: noted(path, text))
    return noted
