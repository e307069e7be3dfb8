"""An error says what happened, what was preserved and what to do, and ends with its own status."""

from __future__ import annotations

import pytest

from outgrow.core import errors
from outgrow.core.errors import OutgrowError, Transient, Unsupported

STATUSES = {
    errors.OutgrowError: 1,
    errors.Permanent: 1,
    errors.Usage: 2,
    errors.NotFound: 10,
    errors.Busy: 11,
    errors.Damaged: 12,
    errors.CannotSave: 13,
    errors.Unsupported: 14,
    errors.Transient: 75,
}


@pytest.mark.parametrize(("kind", "status"), STATUSES.items())
def test_each_error_ends_with_its_documented_status(kind: type[OutgrowError], status: int) -> None:
    assert kind.exit_status == status
    assert issubclass(kind, OutgrowError)


def test_no_error_is_left_out_of_the_table() -> None:
    here = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {kind for kind in here if issubclass(kind, OutgrowError)} == set(STATUSES)


@pytest.mark.parametrize(
    ("preserved", "remedy", "text"),
    [
        ("", "", "the disk is full"),
        ("the job runs on", "", "the disk is full; the job runs on"),
        ("", "free some", "the disk is full; free some"),
        ("the job runs on", "free some", "the disk is full; the job runs on; free some"),
    ],
)
def test_an_error_is_one_line(preserved: str, remedy: str, text: str) -> None:
    error = OutgrowError("the disk is full", preserved=preserved, remedy=remedy)
    assert str(error) == text
    assert (error.message, error.preserved, error.remedy) == (
        "the disk is full",
        preserved,
        remedy,
    )


def test_what_a_host_cannot_do_always_has_a_remedy() -> None:
    error = Unsupported("guarding a job", remedy="run as root")
    assert str(error) == "this host cannot: guarding a job; run as root"
    assert error.feature == "guarding a job"
    with pytest.raises(TypeError):
        Unsupported("guarding a job")  # type: ignore[call-arg]


def test_what_may_work_later_says_when_it_is_known() -> None:
    assert Transient("no room", retry_after=2.5).retry_after == 2.5
    assert Transient("no room").retry_after is None
