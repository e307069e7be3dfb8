"""Where a checkpoint may come back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.fingerprint import Fingerprint, misfits

MADE_ON = Fingerprint(
    "x86_64", "6.12.38+deb13-cloud-amd64", "criu 4.2.1", frozenset({"avx2", "fpu"})
)


@pytest.mark.parametrize(
    ("here", "reasons"),
    [
        pytest.param({}, [], id="the same node"),
        pytest.param({"kernel": "6.18.2"}, [], id="a newer kernel"),
        pytest.param({"kernel": "6.12.1-1"}, [], id="another patch of the same kernel"),
        pytest.param({"kernel": "7.0.0"}, [], id="a newer major version"),
        pytest.param({"engine": "criu 4.10"}, [], id="a newer engine, by number and not by letter"),
        pytest.param(
            {"cpu_features": frozenset({"avx2", "fpu", "avx512f"})}, [], id="a CPU that can more"
        ),
        pytest.param(
            {"architecture": "aarch64"},
            ["it was made on x86_64, this is aarch64"],
            id="another architecture",
        ),
        pytest.param(
            {"cpu_features": frozenset()}, ["this CPU lacks avx2, fpu"], id="a CPU that can less"
        ),
        pytest.param(
            {"engine": "criu 4.1"},
            ["it was made by criu 4.2.1, this host has criu 4.1"],
            id="an older engine",
        ),
        pytest.param(
            {"engine": "criu "},
            ["it was made by criu 4.2.1, this host has criu "],
            id="an engine that does not say its version",
        ),
        pytest.param(
            {"kernel": "6.1.0-37-amd64"},
            ["it was made under Linux 6.12.38+deb13-cloud-amd64, this is 6.1.0-37-amd64"],
            id="an older kernel, by number and not by letter",
        ),
        pytest.param(
            {"kernel": "5.15.0-rc1"},
            ["it was made under Linux 6.12.38+deb13-cloud-amd64, this is 5.15.0-rc1"],
            id="an older major version",
        ),
    ],
)
def test_why_a_checkpoint_cannot_run_here(here: dict[str, object], reasons: list[str]) -> None:
    assert misfits(MADE_ON, replace(MADE_ON, **here)) == reasons  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made_on", "here", "fits"),
    [
        ("6.12.38", "6.12.1", True),
        ("6.12.38", "6.13.0", True),
        ("6.12.38", "6.11.99", False),
        ("6.2.0", "6.10.0", True),
    ],
)
def test_of_a_kernel_only_its_first_two_numbers_count(made_on: str, here: str, fits: bool) -> None:
    older = replace(MADE_ON, kernel=made_on)
    assert (misfits(older, replace(MADE_ON, kernel=here)) == []) is fits


def test_every_reason_is_given_not_the_first_alone() -> None:
    here = Fingerprint("aarch64", "5.10.0", "criu 3.17", frozenset())
    assert len(misfits(MADE_ON, here)) == 4


ascii_text = st.text(st.characters(codec="ascii"))


@given(ascii_text, ascii_text, ascii_text, st.frozensets(ascii_text))
def test_a_node_always_takes_its_own_checkpoints(
    architecture: str, kernel: str, engine: str, features: frozenset[str]
) -> None:
    node = Fingerprint(architecture, kernel, engine, features)
    assert misfits(node, node) == []


def test_an_odd_version_is_no_crash() -> None:
    misfits(replace(MADE_ON, engine="criu 4.²"), MADE_ON)
