"""The policy's ladder, asked with what this host can give now."""

from __future__ import annotations

from outgrow.core.decide import Decision, Situation, next_rung
from outgrow.core.policy import Action, LimitPolicy
from outgrow.ports import Cgroup, Scheduler


class Ladder:
    """`spent` are the rungs that are used once and are behind this job."""

    def __init__(self, scheduler: Scheduler, policy: LimitPolicy) -> None:
        self._scheduler = scheduler
        self._policy = policy
        self.spent: set[Action] = set()

    def decide(self, cgroup: Cgroup, tried: frozenset[Action]) -> Decision:
        """The next rung for a job that stands at the limit of `cgroup`."""
        situation = Situation(
            limit=cgroup.limit,
            room=self._scheduler.room(apart_from=cgroup.paths),
            tried=tried,
            host_cap=self._scheduler.cap(),
        )
        return next_rung(self._policy, situation)
