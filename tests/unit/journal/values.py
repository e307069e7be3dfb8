"""Values for the journal: some by hand, any by hypothesis."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from outgrow.core.job import (
    ID_ALPHABET,
    ID_LENGTH,
    Checkpoint,
    Incarnation,
    Job,
    SaveRecord,
)
from outgrow.core.lifecycle import State
from outgrow.core.policy import SMALLEST_LIMIT, Action, LimitPolicy
from outgrow.core.sample import Sample
from outgrow.core.sizing import NO_LIMIT, NextSize
from outgrow.core.units import GIB, MIB

POLICY = LimitPolicy(256 * MIB, 2 * GIB)


def a_job(number: str = "abcdefgh", name: str = "grower", created: float = 1.0, **more: Any) -> Job:
    """A job of root's that says hello."""
    job = Job(
        id=number,
        name=name,
        owner=0,
        command=("echo", "hello"),
        directory="/",
        policy=POLICY,
        created=created,
    )
    return replace(job, **more)


times = st.floats(0, 1e11)
sizes = st.integers(0, NO_LIMIT)
undecodable = st.binary(max_size=20).map(os.fsdecode)
ids = st.text(ID_ALPHABET, min_size=ID_LENGTH, max_size=ID_LENGTH)
names = st.text(min_size=1, max_size=50).filter(lambda text: text.isprintable() and text != "last")
rules = st.builds(NextSize, factor=st.fractions(1, 64)) | st.builds(
    NextSize, plus=st.integers(1, GIB)
)


@st.composite
def policies(draw: st.DrawFn) -> LimitPolicy:
    memory = draw(st.integers(SMALLEST_LIMIT, NO_LIMIT))
    ladder = draw(st.lists(st.sampled_from(Action), min_size=1, unique=True))
    return LimitPolicy(
        memory=memory,
        max_memory=draw(st.integers(memory, NO_LIMIT)),
        next_size=draw(rules | st.just(NextSize(Fraction(3, 2)))),
        wanted_band=draw(st.integers(MIB, GIB)),
        on_limit=tuple(ladder),
        warn_signal=draw(st.integers(1, 64)),
        warn_grace=draw(st.floats(0, 1e6)),
    )


jobs = st.builds(
    Job,
    id=ids,
    name=names,
    owner=st.integers(0, 2**32 - 2),
    command=st.lists(undecodable, min_size=1, max_size=4).map(tuple),
    directory=undecodable,
    policy=policies(),
    created=times,
    labels=st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3),
    state=st.sampled_from(State),
    exit_status=st.none() | st.integers(0, 255),
    reason=st.text(max_size=30) | undecodable,
    work_lost_seconds=times,
    ended=st.none() | times,
)
incarnations = st.builds(
    Incarnation,
    job=ids,
    number=st.integers(1, 10**6),
    limit=sizes,
    started=times,
    first_limit=sizes,
    peak=sizes,
    ended=st.none() | times,
    end_reason=st.text(max_size=30),
    cgroups=st.lists(undecodable, max_size=2).map(tuple),
)
checkpoints = st.builds(
    Checkpoint,
    job=ids,
    number=st.integers(1, 10**6),
    incarnation=st.integers(1, 10**6),
    size=sizes,
    committed=times,
    deleted=st.none() | times,
)
saves = st.builds(
    SaveRecord,
    job=ids,
    incarnation=st.integers(1, 10**6),
    cause=st.sampled_from(["limit", "save", "move"]),
    started=times,
    outcome=st.sampled_from(["", "moved", "saved", "kept", "thawed"]),
    detail=st.text(max_size=30),
    checkpoint=st.none() | st.integers(1, 10**6),
    freeze_seconds=times,
    dump_seconds=times,
    commit_seconds=times,
    release_seconds=times,
    wait_seconds=times,
    resume_seconds=times,
    paused_seconds=times,
    size=sizes,
    usage_before=sizes,
    released=sizes,
)
samples = st.builds(Sample, at=times, usage=sizes, limit=sizes)
