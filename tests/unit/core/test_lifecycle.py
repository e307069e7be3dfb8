"""The states of a job: every way of the design exists, no other does, and the end is the end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from outgrow.core.errors import OutgrowError
from outgrow.core.lifecycle import IN_MEMORY, ON_DISK, ImpossibleTransition, State, transition

S = State
LIFE = [S.STARTING, S.RUNNING, S.FROZEN, S.SAVING, S.SAVED, S.RELEASED, S.QUEUED, S.RESUMING]
FAIL_OPEN = [S.FROZEN, S.SAVING, S.SAVED]
WAYS = {
    *pairwise(LIFE),
    (S.RESUMING, S.RUNNING),
    (S.RELEASED, S.RESUMING),  # there is room at once
    *((state, S.RUNNING) for state in FAIL_OPEN),
    (S.RESUMING, S.RELEASED),  # the resume failed; the checkpoint stands
    (S.QUEUED, S.RELEASED),  # told to stop while it waited
    (S.LOST, S.RESUMING),  # from an earlier checkpoint
    (S.LOST, S.QUEUED),
    *((state, S.ENDED) for state in State if state is not S.ENDED),
    *((state, S.LOST) for state in State if state is not S.ENDED),
}
"""DESIGN's lifecycle, with what follows from it for a resume that fails."""


@pytest.mark.parametrize("start", State)
@pytest.mark.parametrize("to", State)
def test_a_way_exists_exactly_where_the_design_has_one(start: State, to: State) -> None:
    if (start, to) in WAYS:
        assert transition(start, to) is to
    else:
        with pytest.raises(ImpossibleTransition, match=f"no way from {start} to {to}"):
            transition(start, to)


def test_an_impossible_way_is_one_of_our_errors() -> None:
    assert issubclass(ImpossibleTransition, OutgrowError)


def test_every_state_is_reached_and_left() -> None:
    reached, todo = {S.STARTING}, [S.STARTING]
    while todo:
        here = todo.pop()
        new = {to for start, to in WAYS if start is here} - reached
        reached |= new
        todo += new
    assert reached == set(State)
    assert {start for start, _ in WAYS} == set(State) - {S.ENDED}


def test_a_job_is_in_memory_or_on_disk_or_over() -> None:
    assert not IN_MEMORY & ON_DISK
    assert set(State) - IN_MEMORY - ON_DISK == {S.ENDED, S.LOST}


class Life(RuleBasedStateMachine):
    """A job that is pushed about: its memory is given back only when its checkpoint stands."""

    @initialize()
    def begin(self) -> None:
        self.state = S.STARTING
        self.committed = False
        self.over = False

    @rule(to=st.sampled_from(State))
    def push(self, to: State) -> None:
        before = self.state
        try:
            self.state = transition(before, to)
        except ImpossibleTransition:
            return
        assert not self.over, "something came after the end"
        self.over = to is S.ENDED
        if to is S.SAVED:
            self.committed = True
        if to is S.LOST:
            self.committed = True  # whatever it resumes from was committed before

    @rule()
    def thaw(self) -> None:
        """Fail open: until the release, a job that was stopped can always run on."""
        if self.state in FAIL_OPEN:
            assert transition(self.state, S.RUNNING) is S.RUNNING

    @rule(to=st.sampled_from([S.ENDED, S.LOST]))
    def anything_may_end(self, to: State) -> None:
        if not self.over:
            assert transition(self.state, to) is to

    @invariant()
    def nothing_is_released_before_it_is_saved(self) -> None:
        if getattr(self, "state", None) in ON_DISK:
            assert self.committed


TestLife = Life.TestCase
TestLife.settings = settings(deadline=None, stateful_step_count=30)
