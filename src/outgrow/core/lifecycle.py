"""The states of a job and the ways between them."""

from __future__ import annotations

from enum import StrEnum

from outgrow.core.errors import OutgrowError


class State(StrEnum):
    """Where a job stands."""

    STARTING = "starting"
    RUNNING = "running"
    FROZEN = "frozen"
    SAVING = "saving"
    SAVED = "saved"
    """The checkpoint is committed."""
    RELEASED = "released"
    """The job's memory and allocation are given back; it lives on disk alone."""
    QUEUED = "queued"
    """Saved on disk, waiting for room."""
    RESUMING = "resuming"
    ENDED = "ended"
    LOST = "lost"
    """Its processes are gone and nobody saw it end; an earlier checkpoint may stand."""


_NEXT: dict[State, frozenset[State]] = {
    State.STARTING: frozenset({State.RUNNING}),
    State.RUNNING: frozenset({State.FROZEN}),
    State.FROZEN: frozenset({State.SAVING, State.RUNNING}),
    State.SAVING: frozenset({State.SAVED, State.RUNNING}),
    State.SAVED: frozenset({State.RELEASED, State.RUNNING}),
    State.RELEASED: frozenset({State.QUEUED, State.RESUMING}),
    State.QUEUED: frozenset({State.RESUMING, State.RELEASED}),
    State.RESUMING: frozenset({State.RUNNING, State.RELEASED}),
    State.ENDED: frozenset(),
    State.LOST: frozenset({State.RESUMING, State.QUEUED}),
}

ON_DISK = frozenset({State.RELEASED, State.QUEUED})
"""States in which no process of the job exists and its checkpoint is the job."""

IN_MEMORY = frozenset(
    {State.STARTING, State.RUNNING, State.FROZEN, State.SAVING, State.SAVED, State.RESUMING}
)
"""States in which processes of the job exist."""


class ImpossibleTransition(OutgrowError):
    """The state machine was asked for a way that does not exist: a defect of outgrow."""


def transition(state: State, to: State) -> State:
    """`to`, when a job in `state` may go there. Raises ImpossibleTransition otherwise.

    A job may end or be lost from every state but `ended`.
    """
    if to in (State.ENDED, State.LOST) and state is not State.ENDED:
        return to
    if to not in _NEXT[state]:
        raise ImpossibleTransition(f"no way from {state} to {to}")
    return to
