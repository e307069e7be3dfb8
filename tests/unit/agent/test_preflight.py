"""What keeps a job from being saved is told early, once, and never of outgrow's own work."""

from __future__ import annotations

import threading
import time

import pytest

from outgrow.agent import preflight
from outgrow.agent.loop import Loop
from outgrow.agent.preflight import Preflight
from outgrow.core.errors import CannotSave, Transient
from outgrow.core.obstacles import VFORK, Obstacle, Reason

RING = Obstacle(7, Reason("an io_uring", "switch it off"))
COUNTER = Obstacle(8, Reason("a performance counter", "run it without"))
UNREAD = Obstacle(7, Reason("unread events", "try again", passes=True, lost=True))
FORKING = Obstacle(7, VFORK)


class Looked:
    """A preflight over obstacles that the test gives, with short pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there: list[Obstacle] = []
        self.told: list[str] = []
        self.looks = 0
        self.looking = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        monkeypatch.setattr(preflight, "_FIRST_LOOK", 0.01)
        monkeypatch.setattr(preflight, "_LONGEST_LOOK", 0.02)
        monkeypatch.setattr(preflight, "find_obstacles", self._find)
        self.loop = Loop()
        self.preflight = Preflight(self.loop, lambda: [7, 8], self._found)

    def _find(self, pids: list[int]) -> list[Obstacle]:
        assert pids == [7, 8]
        self.looks += 1
        found = list(self.there)
        self.looking.set()
        self.go_on.wait(10)
        return found

    def _found(self, obstacle: Obstacle) -> None:
        self.told.append(obstacle.reason.what)

    def wait(self, seconds: float = 0.1) -> None:
        self.loop.run_until(self.loop.sleep(seconds))

    def wait_for(self, *kinds: Obstacle) -> None:
        end = time.monotonic() + 10
        while self.told != [kind.reason.what for kind in kinds] and time.monotonic() < end:
            self.wait(0.02)
        assert self.told == [kind.reason.what for kind in kinds]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


def test_each_kind_is_told_once(looked: Looked) -> None:
    looked.there = [RING, UNREAD]
    looked.preflight.begin()
    looked.wait_for(RING)
    looked.there = [RING, COUNTER]
    looked.wait_for(RING, COUNTER)
    looked.preflight.stop()
    assert looked.looks >= 2
    before = looked.looks
    looked.wait()
    assert looked.looks == before


def test_what_was_seen_while_a_save_began_is_not_told(looked: Looked) -> None:
    """A tracer may be the engine."""
    looked.there = [RING]
    looked.go_on.clear()
    looked.preflight.begin()
    looked.wait(0.05)
    assert looked.looking.is_set()
    looked.preflight.stop()
    looked.go_on.set()
    looked.wait()
    assert looked.told == []
    looked.preflight.begin()
    looked.wait_for(RING)
    looked.preflight.stop()


def test_a_save_is_refused_for_good_or_for_now() -> None:
    assert preflight.check([], at_the_limit=False) == ()
    with pytest.raises(Transient, match="cannot be saved now: process 7 holds unread events"):
        preflight.check([UNREAD], at_the_limit=False)
    assert preflight.check([UNREAD], at_the_limit=True) == ("process 7 holds unread events",)
    for at_the_limit in (True, False):
        with pytest.raises(Transient, match="cannot be saved now: process 7 holds a child"):
            preflight.check([FORKING], at_the_limit=at_the_limit)
    with pytest.raises(CannotSave, match="an io_uring"):
        preflight.check([UNREAD, RING], at_the_limit=True)
