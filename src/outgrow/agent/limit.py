"""What happens to a job that stands at its limit: the policy's ladder, rung by rung."""

from __future__ import annotations

import signal

from outgrow.agent.custody import Custody
from outgrow.agent.guard import Stopped
from outgrow.agent.moves import Moves
from outgrow.agent.requests import Outcome
from outgrow.agent.rescue import AT_THE_LIMIT, Saved
from outgrow.core.decide import (
    Decision,
    Grow,
    Keep,
    Leave,
    Move,
    Situation,
    Warn,
    cache_target,
    next_rung,
    only_dirty_cache,
)
from outgrow.core.errors import CannotSave, OutgrowError
from outgrow.core.job import SaveRecord
from outgrow.core.lifecycle import State
from outgrow.core.policy import Action
from outgrow.core.units import format_seconds, format_size


class AtTheLimit:
    """The ladder of one job. A warning is given once."""

    def __init__(self, custody: Custody, moves: Moves) -> None:
        self._custody = custody
        self._moves = moves
        self._spent: set[Action] = set()

    async def climb(self, stopped: Stopped) -> Outcome | None:
        """Deal with a job that the guard has stopped. An Outcome when it is on disk afterwards."""
        custody, live = self._custody, self._custody.the_living()
        if not live.watched:  # stopped before it was known here that it lives
            live.tell_frozen()
        custody.chronicle.to(State.FROZEN)
        custody.rescue.step("frozen", seconds=stopped.seconds, usage=live.cgroup.usage())
        if not stopped.stands:
            custody.leave("its tasks could not all be stopped")
            return None
        if await self._held_up_by_writes():
            custody.run_on("only unwritten files held it up")
            return None
        record = custody.chronicle.begin_save(AT_THE_LIMIT, stopped.seconds)
        try:
            return await self._rungs(record)
        except CannotSave:  # it was let go meanwhile, and runs
            return None

    async def _held_up_by_writes(self) -> bool:
        cgroup, band = self._custody.the_living().cgroup, self._custody.band
        reading = cgroup.reading()
        if not only_dirty_cache(reading, cgroup.limit, band):
            return False
        target = cache_target(reading.own, cgroup.limit, band)
        await self._custody.loop.in_thread(lambda: cgroup.drop_cache(target))
        return cgroup.usage() < cgroup.limit - band

    async def _rungs(self, record: SaveRecord) -> Outcome | None:
        live, tried = self._custody.the_living(), set(self._spent)
        while live.alive:
            if live.let_go:
                self._custody.run_on("it was let go while it was being saved")
                return None
            match self._decide(tried):
                case Grow(limit):
                    if self._grow(limit):
                        return None
                    tried.add(Action.GROW)
                case Move(limit):
                    saved = await self._try_save(record)
                    if saved is not None:
                        return await self._moves.move(saved, limit)
                    tried.add(Action.MOVE)
                case Keep(reason):
                    saved = await self._try_save(record)
                    if saved is not None:
                        return await self._moves.keep_on_disk(saved, reason)
                    tried.add(Action.MOVE)
                case Warn(number, grace):
                    self._warn(number, grace)
                    return None
                case Leave(reason):
                    self._custody.leave(reason)
                    return None
        return None  # it ended meanwhile; that is dealt with next

    def _decide(self, tried: set[Action]) -> Decision:
        custody, cgroup = self._custody, self._custody.the_living().cgroup
        situation = Situation(
            limit=cgroup.limit,
            room=custody.host.scheduler.room(apart_from=cgroup.paths),
            tried=frozenset(tried),
            host_cap=custody.host.scheduler.cap(),
        )
        decision = next_rung(custody.job.policy, situation)
        custody.chronicle.event("decision", decision=repr(decision), room=situation.room)
        return decision

    def _grow(self, limit: int) -> bool:
        custody, live = self._custody, self._custody.the_living()
        before = live.cgroup.limit
        try:
            live.cgroup.set_limit(limit)
        except OSError:
            return False
        live.renew_undo()
        custody.chronicle.set_incarnation(limit=limit)
        custody.chronicle.event("grown", before=before, limit=limit)
        custody.run_on("it was given more")
        custody.say(
            f"{custody.job.name} reached {format_size(before)};"
            f" its limit is now {format_size(limit)}, nothing stopped"
        )
        return True

    def _warn(self, number: int, grace: float) -> None:
        custody, live = self._custody, self._custody.the_living()
        self._spent.add(Action.WARN)
        name = signal.Signals(number).name
        custody.chronicle.event("warned", signal=name, grace=grace)
        live.cgroup.disarm()
        custody.thaw("warned")
        live.signal(number, group=False)
        custody.say(
            f"{custody.job.name} is at its limit of {format_size(live.cgroup.limit)}:"
            f" sent {name}, it has {format_seconds(grace)}"
        )
        custody.loop.later(grace, custody.arm)

    async def _try_save(self, record: SaveRecord) -> Saved | None:
        try:
            return await self._moves.save(record, await self._custody.obstacles_at_the_limit())
        except OutgrowError as error:
            self._custody.say(f"{self._custody.job.name} could not be saved: {error}", trouble=True)
            return None
