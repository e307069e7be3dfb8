"""What a CRIU log says went wrong."""

from __future__ import annotations

import re
from pathlib import Path

_ERROR = re.compile(r"Error\s+\(([^)]*)\):\s*(.*)")
_KNOWN = (
    ("No space left on device", "the store is full"),
    ("Read-only file system", "the store is read-only"),
    ("io_uring", "it uses io_uring, which cannot be saved"),
    ("In-flight connection", "a connection that it has not accepted yet; try again"),
    ("File exists", "a PID that the job had is in use"),
)


def reason(log: Path) -> str:
    """The first error of a log, in CRIU's words, with ours before it where we know it."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it left no log"
    errors = [match.group(2).strip() for match in _ERROR.finditer(text)]
    # What CRIU cannot set here, and says on every run of a root without CAP_SYS_RESOURCE.
    errors = [error for error in errors if "RLIMIT_NOFILE" not in error]
    if not errors:
        return "its log names no error"
    for sign, meaning in _KNOWN:
        if any(sign in error for error in errors):
            return f"{meaning} ({errors[0]})"
    return errors[0]
