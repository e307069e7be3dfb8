"""What a set of findings amounts to."""

from __future__ import annotations

import pytest

from outgrow.agent.examination.findings import (
    NEEDED,
    WITHOUT,
    Finding,
    Status,
    degraded,
    in_order,
    lacking,
    main_job_runs,
    missing,
    ok,
    untried,
)


def everything(*others: Finding) -> list[Finding]:
    """A host on which all is well, but for `others`."""
    replaced = {finding.name: finding for finding in others}
    return [replaced.get(name, ok(name, "fine")) for name in WITHOUT]


@pytest.mark.parametrize("name", NEEDED)
def test_the_main_job_needs_each_of(name: str) -> None:
    found = everything(missing(name, "not there", "get one"))
    assert lacking(found) == [name]
    assert not main_job_runs(found)


@pytest.mark.parametrize("name", sorted(set(WITHOUT) - set(NEEDED) - {"cgroups"}))
def test_the_main_job_can_do_without(name: str) -> None:
    assert main_job_runs(everything(missing(name, "not there", "get one")))


@pytest.mark.parametrize("name", NEEDED)
def test_less_than_it_might_be_is_enough(name: str) -> None:
    assert main_job_runs(everything(degraded(name, "little", "get more")))


def test_what_was_not_looked_at_is_missing() -> None:
    assert lacking([]) == list(NEEDED)
    (finding,) = untried(["freezer"], "it needs root", "run as root")
    assert finding.status is Status.MISSING
    assert finding.seen == "not tried: it needs root"
    assert not finding.tried


def test_only_what_is_not_well_has_a_remedy_and_says_what_works_without() -> None:
    assert ok("swap", "none").remedy == ok("swap", "none").without == ""
    for make in (missing, degraded):
        assert make("swap", "some", "turn it off").remedy == "turn it off"
        assert make("swap", "some", "turn it off").without == WITHOUT["swap"]


def test_they_are_told_in_one_order() -> None:
    assert in_order(reversed(everything())) == everything()
