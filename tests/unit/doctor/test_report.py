"""The report as a person reads it."""

from __future__ import annotations

import pytest

from outgrow.agent.examination.findings import WITHOUT, Finding, degraded, missing, ok, untried
from outgrow.cli.doctor import lines

FOUND = [
    ok("root", "uid 0"),
    missing("criu", "there is none", "get one"),
    *untried(["save-tcp"], "there is no CRIU", "get one"),
    degraded("swap", "8 GiB", "turn it off"),
]


def test_a_line_each_and_what_to_do() -> None:
    assert lines(FOUND, "utf-8")[:-2] == [
        "✓ root        uid 0",
        "✗ criu        there is none",
        "              remedy: get one",
        f"              works without: {WITHOUT['criu']}",
        "✗ save-tcp    not tried: there is no CRIU",
        "~ swap        8 GiB",
        "              remedy: turn it off",
        f"              works without: {WITHOUT['swap']}",
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_plain_marks_where_the_others_cannot_be_written(encoding: str) -> None:
    told = lines([ok("root", "uid 0"), missing("criu", "none", "get one")], encoding)
    assert told[0].startswith("+ root")
    assert told[1].startswith("x criu")


def test_a_path_never_reaches_the_terminal_as_a_command() -> None:
    finding = ok("store", "in /tmp/\x1b[31mré\udcffd\n")
    assert lines([finding], "utf-8")[0].endswith("in /tmp/?[31mré?d?")
    assert lines([finding], "ascii")[0].endswith("in /tmp/?[31mr??d?")


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        ([ok(name, "fine") for name in WITHOUT], "A job can be guarded, saved and resumed here."),
        (
            [ok(name, "fine") for name in WITHOUT if name not in ("freezer", "store")],
            "A job cannot be guarded, saved and resumed here: freezer, store missing.",
        ),
    ],
)
def test_the_conclusion(found: list[Finding], conclusion: str) -> None:
    assert lines(found, "utf-8")[-1] == conclusion
