"""What `resume` and `kill` refuse, and leave as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outgrow.agent import truth as truths
from outgrow.agent.paths import StateDir
from outgrow.agent.resume import resume
from outgrow.agent.unkept import end_unkept
from outgrow.core.errors import Busy, Damaged, NotFound, OutgrowError, Usage
from outgrow.core.fingerprint import Fingerprint
from outgrow.core.job import Incarnation, Job
from outgrow.core.lifecycle import State
from outgrow.core.policy import LimitPolicy
from outgrow.core.units import GIB, MIB
from outgrow.journal.reader import JournalReader
from outgrow.launcher import records
from outgrow.launcher.records import BeganRecord, ExitRecord, Lock
from outgrow.ports import StreamKey
from outgrow.store.posix import PosixStore
from tests.contract.values import save_into

JOB = "abcdefgh"
HERE = Fingerprint("x86_64", "6.12.38", "criu 4.2.1", frozenset({"avx2", "fpu"}))


def silence(text: str, *, trouble: bool = False) -> None:
    """Nobody watches."""


class Saved:
    """A job on disk, and the host that is asked to carry it on."""

    def __init__(self, root: Path) -> None:
        self.state = StateDir(root)
        self.state.make()
        self.run = self.state.run(JOB)
        self.run.mkdir()
        self.store = PosixStore(self.state.store)
        save_into(self.store, JOB, incarnation=1, own=200 * MIB, streams=())
        records.write_began(self.run, 1, BeganRecord(1.0, GIB, []))
        records.write_exit(self.run, 1, ExitRecord(9.0, released=1))
        policy = LimitPolicy(GIB, GIB)
        self.job = Job(JOB, "grower", 0, ("true",), "/", policy, 1.0, state=State.RELEASED)
        self.last: Incarnation | None = Incarnation(JOB, 1, GIB, 1.0)
        self.here = HERE

    def resume(self, memory: int | None = None) -> None:
        host: Any = SimpleNamespace(
            state=self.state,
            store=self.store,
            engine=SimpleNamespace(fingerprint=lambda: self.here),
        )
        resume(host, self.job, self.last, memory, silence)


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path / "state")


def ended(saved: Saved) -> None:
    saved.job = replace(saved.job, state=State.ENDED)


def forgotten(saved: Saved) -> None:
    for file in saved.run.iterdir():
        file.unlink()
    saved.run.rmdir()


def never_begun(saved: Saved) -> None:
    saved.last = None


def lost(saved: Saved) -> None:
    saved.store.delete(JOB, 1)


def elsewhere(saved: Saved) -> None:
    saved.here = replace(HERE, cpu_features=frozenset({"fpu"}))


def damaged(saved: Saved) -> None:
    (saved.state.store / JOB / "1" / "images" / "core-7.img").write_bytes(b"more than before")


def fits(_: Saved) -> None:
    """Nothing is wrong but what is asked."""


Spoil = Callable[[Saved], None]


@pytest.mark.parametrize(
    ("spoil", "memory", "kind", "says"),
    [
        pytest.param(ended, None, NotFound, "has ended", id="ended"),
        pytest.param(forgotten, None, NotFound, "was forgotten", id="forgotten"),
        pytest.param(never_begun, None, NotFound, "has ended", id="never begun"),
        pytest.param(lost, None, NotFound, "is lost and has no checkpoint", id="lost"),
        pytest.param(elsewhere, None, Usage, "this CPU lacks avx2", id="another CPU"),
        pytest.param(damaged, None, Damaged, "has 16 bytes instead of 4", id="damaged"),
        pytest.param(
            fits, 100 * MIB, Usage, "100 MiB cannot hold the job: it used 200 MiB", id="too small"
        ),
    ],
)
def test_what_cannot_be_carried_on_is_left_as_it_is(
    saved: Saved, spoil: Spoil, memory: int | None, kind: type[OutgrowError], says: str
) -> None:
    spoil(saved)
    before = set(saved.state.root.rglob("*"))
    with pytest.raises(kind, match=says) as error:
        saved.resume(memory)
    assert error.value.remedy or error.value.preserved
    assert set(saved.state.root.rglob("*")) - before <= {saved.run / records.KEEPER}


def test_a_stream_that_is_gone_is_named_and_the_checkpoint_kept(saved: Saved) -> None:
    saved.store.delete(JOB, 1)
    gone = StreamKey(1, "file[1:2]", str(saved.state.root / "gone"), 1, 0)
    number = save_into(saved.store, JOB, incarnation=1, own=200 * MIB, streams=(gone,)).number
    with pytest.raises(NotFound, match="gone"):
        saved.resume()
    assert saved.store.checkpoints(JOB) == [number]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truths, "_PROBE_EVERY", 0.001)


@pytest.mark.usefixtures("at_once")
def test_a_job_that_is_kept_is_busy(saved: Saved) -> None:
    keeper = Lock(saved.run / records.KEEPER)
    with pytest.raises(Busy, match="kept by another process"):
        saved.resume()
    with pytest.raises(Busy, match="kept by another process"):
        end_unkept(saved.state, saved.store, saved.job, saved.last, 15)
    assert saved.store.checkpoints(JOB) == [1]
    keeper.close()


def test_a_job_that_runs_is_given_no_other_size(saved: Saved) -> None:
    alive = Lock(saved.run / records.LOCK)
    with pytest.raises(Busy, match="runs"):
        saved.resume(2 * GIB)
    alive.close()


def test_a_job_on_disk_is_killed_where_it_is(saved: Saved) -> None:
    end_unkept(saved.state, saved.store, saved.job, saved.last, 10)
    reader = JournalReader(saved.state.journal)
    job = reader.find(JOB)
    reader.close()
    assert (job.state, job.exit_status, job.reason) == (State.ENDED, 138, "killed as asked")
    assert saved.store.checkpoints(JOB) == []
    assert not records.is_held(saved.run / records.KEEPER)
