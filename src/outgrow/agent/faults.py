"""Fault points: where the tests kill or stop outgrow.

`OUTGROW_FAULT=kill@STEP` (or `stop@STEP`) sends this process SIGKILL (SIGSTOP) when it reaches
the step of that name. A user who sets it harms only what is already theirs to signal.
"""

from __future__ import annotations

import os
import signal

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_WHAT, _, _STEP = os.environ.pop("OUTGROW_FAULT", "").partition("@")


def reached(step: str) -> None:
    """Die or stop here, when the environment says so."""
    if step == _STEP and _WHAT in _SIGNALS:
        os.kill(os.getpid(), _SIGNALS[_WHAT])
