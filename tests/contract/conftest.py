"""Properties are searched without a stopwatch: a busy machine is no counterexample."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("outgrow", deadline=None)
settings.load_profile("outgrow")
