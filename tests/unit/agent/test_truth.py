"""What a job really is, for everything that its living and dead may have left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from outgrow.agent import truth as truths
from outgrow.agent.paths import StateDir
from outgrow.agent.truth import Truth, find_truth, keep_alone, newest_incarnation
from outgrow.core.errors import Busy
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import GIB
from outgrow.launcher import records
from outgrow.launcher.records import BeganRecord, ExitRecord, Lock
from outgrow.store.posix import PosixStore
from tests.contract.values import SAVED_AT, save_into

JOB = "abcdefgh"
KILLED, WELL, SEVEN = 9, 0, 7 << 8


@dataclass
class Left:
    """What is there: locks, records of incarnation 2, and checkpoints, of the incarnation given."""

    state: State = State.RUNNING
    incarnation: bool = True
    kept: bool = False
    lives: bool = False
    began: bool = True
    exit: ExitRecord | None = None
    checkpoints: list[int] = field(default_factory=list)
    damaged: bool = False


@contextmanager
def left_behind(root: Path, left: Left) -> Iterator[Truth]:
    state = StateDir(root)
    state.make()
    run = state.run(JOB)
    run.mkdir()
    store = PosixStore(state.store)
    for incarnation in left.checkpoints:
        number = save_into(store, JOB, incarnation=incarnation, created=SAVED_AT).number
        if left.damaged:
            (state.store / JOB / str(number) / "manifest.json").unlink()
    if left.began:
        records.write_began(run, 2, BeganRecord(50.0, GIB, []))
    if left.exit is not None:
        records.write_exit(run, 2, left.exit)
    job = Job(JOB, "grower", 0, ("true",), "/", LimitPolicy(GIB, GIB), 1.0, state=left.state)
    last = Incarnation(JOB, 2, GIB, 50.0) if left.incarnation else None
    with ExitStack() as locks:
        for name, held in ((records.KEEPER, left.kept), (records.LOCK, left.lives)):
            if held:
                locks.callback(Lock(run / name).close)
        yield find_truth(state, store, job, last)


EXITED = ExitRecord(200.0, status=SEVEN)
RELEASED = ExitRecord(200.0, released=1)
NEVER_RAN = ExitRecord(200.0, failed="restore")
TABLE = [
    # -- it is over
    ("ended", Left(State.ENDED), Truth(State.ENDED)),
    ("ended, whatever else is there", Left(State.ENDED, lives=True), Truth(State.ENDED)),
    # -- somebody keeps it: what the journal says is true
    ("kept", Left(kept=True, lives=True), Truth(State.RUNNING, kept=True)),
    (
        "kept while it is saved",
        Left(State.SAVING, kept=True, lives=True, checkpoints=[2]),
        Truth(State.SAVING, kept=True, checkpoint=1),
    ),
    (
        "kept while it waits on disk",
        Left(State.QUEUED, kept=True, exit=RELEASED, checkpoints=[2]),
        Truth(State.QUEUED, kept=True, checkpoint=1),
    ),
    # -- it lives, and nobody keeps it
    ("lives", Left(lives=True), Truth(State.RUNNING)),
    (
        "lives, saved before",
        Left(State.SAVED, lives=True, checkpoints=[1, 2]),
        Truth(State.RUNNING, checkpoint=2),
    ),
    # -- it ended by itself
    ("exited", Left(exit=EXITED), Truth(State.ENDED, wait_status=SEVEN, ended_at=200.0)),
    (
        "exited well, with a checkpoint that nobody needs",
        Left(exit=ExitRecord(200.0, status=WELL), checkpoints=[2]),
        Truth(State.ENDED, wait_status=WELL, checkpoint=1, ended_at=200.0),
    ),
    (
        "ended by SIGTERM",
        Left(exit=ExitRecord(200.0, status=15), checkpoints=[2]),
        Truth(State.ENDED, wait_status=15, checkpoint=1, ended_at=200.0),
    ),
    # -- it was killed
    (
        "killed without a checkpoint",
        Left(exit=ExitRecord(200.0, status=KILLED)),
        Truth(State.ENDED, wait_status=KILLED, ended_at=200.0),
    ),
    (
        "killed, and can go back",
        Left(exit=ExitRecord(200.0, status=KILLED), checkpoints=[1]),
        Truth(State.LOST, wait_status=KILLED, checkpoint=1, certain=False, ended_at=200.0),
    ),
    # -- it is on disk
    (
        "released",
        Left(State.SAVED, exit=RELEASED, checkpoints=[2]),
        Truth(State.RELEASED, checkpoint=1, ended_at=200.0),
    ),
    (
        "released, and the checkpoint is gone",
        Left(State.RELEASED, exit=RELEASED),
        Truth(State.LOST, ended_at=200.0),
    ),
    (
        "never came back",
        Left(State.RESUMING, exit=NEVER_RAN, checkpoints=[1]),
        Truth(State.RELEASED, checkpoint=1, ended_at=200.0),
    ),
    (
        "never came to life",
        Left(State.STARTING, exit=NEVER_RAN),
        Truth(State.LOST, ended_at=200.0),
    ),
    (
        "outgrow died before PID 1 began",
        Left(State.RESUMING, began=False, checkpoints=[1]),
        Truth(State.RELEASED, checkpoint=1),
    ),
    (
        "outgrow died before PID 1 began, and nothing was saved",
        Left(State.STARTING, began=False),
        Truth(State.LOST),
    ),
    # -- nobody saw it end
    ("gone without a trace", Left(), Truth(State.LOST)),
    ("not even an incarnation", Left(State.STARTING, incarnation=False), Truth(State.LOST)),
    (
        "gone while it ran on after a save",
        Left(State.RUNNING, checkpoints=[2]),
        Truth(State.LOST, checkpoint=1, certain=False),
    ),
    # What the journal says of a job that nobody kept any more proves nothing: it may have been let
    # go since, and the checkpoint may be older than the save that it was in.
    (
        "gone while it stood, saved",
        Left(State.SAVED, checkpoints=[2]),
        Truth(State.LOST, checkpoint=1, certain=False),
    ),
    (
        "gone while it was being saved once more",
        Left(State.SAVING, checkpoints=[2]),
        Truth(State.LOST, checkpoint=1, certain=False),
    ),
    (
        "gone, and its checkpoint is damaged",
        Left(State.SAVED, checkpoints=[2], damaged=True),
        Truth(State.LOST, checkpoint=1, certain=False),
    ),
]


@pytest.mark.parametrize(
    ("left", "truth"), [pytest.param(left, truth, id=name) for name, left, truth in TABLE]
)
def test_what_is_true_of_a_job(tmp_path: Path, left: Left, truth: Truth) -> None:
    with left_behind(tmp_path / "state", left) as found:
        assert found == truth


def test_who_holds_the_lock_of_keepers_is_no_keeper_to_itself(tmp_path: Path) -> None:
    with left_behind(tmp_path, Left(exit=EXITED)):
        state = StateDir(tmp_path)
        lock = Lock(state.run(JOB) / records.KEEPER)
        job = Job(JOB, "grower", 0, ("true",), "/", LimitPolicy(GIB, GIB), 1.0, state=State.RUNNING)
        last = Incarnation(JOB, 2, GIB, 50.0)
        store = PosixStore(state.store)
        assert find_truth(state, store, job, last).state is State.RUNNING
        assert find_truth(state, store, job, last, kept=False).state is State.ENDED
        lock.close()


# -- what the journal does not know yet


BEGAN = BeganRecord(70.0, 2 * GIB, ["/m/a", "/f/a"])
THIRD = Incarnation(JOB, 3, 2 * GIB, 70.0, first_limit=2 * GIB, cgroups=("/m/a", "/f/a"))
SECOND = Incarnation(JOB, 2, GIB, 50.0, peak=7)


@pytest.mark.parametrize(
    ("journalled", "began", "expected"),
    [
        pytest.param(SECOND, None, SECOND, id="nothing began after it"),
        pytest.param(SECOND, 3, THIRD, id="one began after it"),
        pytest.param(THIRD, 3, THIRD, id="the journal knows it"),
        pytest.param(replace(THIRD, number=4), 3, replace(THIRD, number=4), id="a later one"),
        pytest.param(None, 3, THIRD, id="the journal knows none"),
        pytest.param(None, None, None, id="there was none"),
    ],
)
def test_the_newest_incarnation(
    tmp_path: Path,
    journalled: Incarnation | None,
    began: int | None,
    expected: Incarnation | None,
) -> None:
    run = tmp_path / JOB
    run.mkdir()
    if began is not None:
        records.write_began(run, began, BEGAN)
    assert newest_incarnation(run, journalled) == expected


def test_a_damaged_note_is_no_incarnation(tmp_path: Path) -> None:
    (tmp_path / "began-3.json").write_text("{}")
    assert newest_incarnation(tmp_path, SECOND) == SECOND


# -- who may keep a job


def test_one_that_only_looks_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Lock(tmp_path / records.KEEPER)
    monkeypatch.setattr(truths, "_PROBES", 1000)
    timer = threading.Timer(0.02, looking.close)
    timer.start()
    keep_alone(tmp_path, JOB).close()
    timer.join()


def test_one_that_keeps_it_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Lock(tmp_path / records.KEEPER)
    monkeypatch.setattr(truths, "_PROBE_EVERY", 0.001)
    with pytest.raises(Busy, match=f"job {JOB} is kept by another process") as error:
        keep_alone(tmp_path, JOB)
    assert f"outgrow show {JOB}" in error.value.remedy
    keeper.close()
