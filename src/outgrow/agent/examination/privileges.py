"""What this process may do: root, and the capabilities that make the guard better."""

from __future__ import annotations

import re

from outgrow.agent.examination.findings import Finding, degraded, missing, ok, untried

AS_ROOT = "run it as root (sudo)"
NEEDS_ROOT = "it needs root"

_BITS = {"cap-ipc-lock": 14, "cap-sys-nice": 23, "cap-sys-resource": 24}
"""Numbers of linux/capability.h."""

_USES = {
    "cap-ipc-lock": "outgrow's own memory can be locked",
    "cap-sys-nice": "the guard runs at high priority",
    "cap-sys-resource": "jobs of every user can be saved; outgrow is exempt from the OOM killer",
}


def examine_privileges(uid: int, status: str) -> list[Finding]:
    """Findings for root and the capabilities. `status` is the text of /proc/self/status."""
    if uid != 0:
        return [missing("root", f"uid {uid}", AS_ROOT), *untried(_BITS, NEEDS_ROOT, AS_ROOT)]
    found = [ok("root", "uid 0")]
    effective = effective_capabilities(status)
    for name, bit in _BITS.items():
        capability = name.upper().replace("-", "_")
        if effective >> bit & 1:
            found.append(ok(name, _USES[name]))
        else:
            remedy = f"let whatever started this shell (container, unit, login) keep {capability}"
            found.append(degraded(name, f"root without {capability}", remedy))
    return found


def effective_capabilities(status: str) -> int:
    """The bits of CapEff in a process's `status` (proc(5)); 0 where it does not say."""
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", status, re.MULTILINE)
    return int(match.group(1), 16) if match else 0
