"""Root, and the capabilities that /proc/self/status shows."""

from __future__ import annotations

import pytest

from outgrow.agent.examination.findings import Status
from outgrow.agent.examination.privileges import effective_capabilities, examine_privileges

ALL = "Name:\tpython3\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"
WITHOUT_RESOURCE = "CapInh:\t0000000000000000\nCapEff:\t000001fffeffffff\n"
NONE = "CapEff:\t0000000000000000\n"


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        (ALL, (1 << 41) - 1),
        (WITHOUT_RESOURCE, ((1 << 41) - 1) & ~(1 << 24)),
        (NONE, 0),
        ("", 0),
        ("CapEff:\tgarbage\n", 0),
    ],
)
def test_effective_capabilities(text: str, bits: int) -> None:
    assert effective_capabilities(text) == bits


@pytest.mark.parametrize(
    ("uid", "text", "expected"),
    [
        (0, ALL, {"root": "ok", "cap-ipc-lock": "ok", "cap-sys-nice": "ok"}),
        (0, WITHOUT_RESOURCE, {"root": "ok", "cap-sys-resource": "degraded"}),
        (0, NONE, {"root": "ok", "cap-ipc-lock": "degraded", "cap-sys-nice": "degraded"}),
        (1000, NONE, {"root": "missing", "cap-sys-resource": "missing"}),
        (1000, ALL, {"root": "missing"}),
    ],
)
def test_findings(uid: int, text: str, expected: dict[str, str]) -> None:
    found = {finding.name: finding for finding in examine_privileges(uid, text)}
    assert set(found) == {"root", "cap-ipc-lock", "cap-sys-nice", "cap-sys-resource"}
    assert {name: found[name].status.value for name in expected} == expected
    assert all(f.remedy and f.without for f in found.values() if f.status is not Status.OK)


def test_the_missing_capability_is_named_as_the_kernel_names_it() -> None:
    found = {finding.name: finding for finding in examine_privileges(0, WITHOUT_RESOURCE)}
    assert "CAP_SYS_RESOURCE" in found["cap-sys-resource"].seen
    assert "CAP_SYS_RESOURCE" in found["cap-sys-resource"].remedy
