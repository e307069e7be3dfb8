"""What the journal keeps is what it was given."""

from __future__ import annotations

import pytest
from hypothesis import given

from outgrow.core.job import Checkpoint, Incarnation, Job, SaveRecord
from outgrow.journal import documents

from . import values


@given(values.jobs)
def test_a_job_comes_back_equal(job: Job) -> None:
    assert documents.decode_job(documents.encode(job)) == job


@given(values.incarnations)
def test_an_incarnation_comes_back_equal(incarnation: Incarnation) -> None:
    assert documents.decode_incarnation(documents.encode(incarnation)) == incarnation


@given(values.checkpoints)
def test_a_checkpoint_comes_back_equal(checkpoint: Checkpoint) -> None:
    assert documents.decode_checkpoint(documents.encode(checkpoint)) == checkpoint


@given(values.saves)
def test_a_save_comes_back_equal(record: SaveRecord) -> None:
    assert documents.decode_save(documents.encode(record)) == record


@given(values.jobs)
def test_a_document_is_plain_ascii(job: Job) -> None:
    documents.encode(job).encode("ascii")


def test_what_has_no_place_in_a_document_is_refused() -> None:
    odd = values.a_job(reason=object())
    with pytest.raises(TypeError, match="object has no place in the journal"):
        documents.encode(odd)
