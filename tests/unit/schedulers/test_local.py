"""This host's memory is given while there is some, and never promised twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import GIB, MIB
from outgrow.kernel.cgroups import find_hierarchies
from outgrow.schedulers.local import LocalScheduler, promises_below, reserve_of

TREES = Path(__file__).parents[2] / "trees"
Promises = dict[str, tuple[int, int]]


def scheduler(total: int, available: int, promises: Promises | None = None) -> LocalScheduler:
    return LocalScheduler(lambda: (total, available), lambda: {} if promises is None else promises)


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        pytest.param(GIB, 128 * MIB, id="at least 128 MiB"),
        pytest.param(8 * GIB, 8 * GIB // 20, id="5 %"),
        pytest.param(1024 * GIB, 2 * GIB, id="at most 2 GiB"),
    ],
)
def test_the_reserve(total: int, reserve: int) -> None:
    assert reserve_of(total) == reserve
    assert scheduler(total, total).cap() == total - reserve


@pytest.mark.parametrize(
    ("promises", "apart_from", "room"),
    [
        pytest.param({}, (), 10000, id="nobody else"),
        pytest.param({"/a": (1000, 0)}, (), 9000, id="promised, not used yet"),
        pytest.param({"/a": (1000, 1000)}, (), 10000, id="promised and used: no longer available"),
        pytest.param({"/a": (1000, 400), "/b": (500, 100)}, (), 9000, id="two jobs"),
        pytest.param({"/a": (1000, 1200)}, (), 10000, id="above its limit for a moment"),
        pytest.param({"/a": (1000, 0), "/b": (500, 0)}, ("/a",), 9500, id="its own does not count"),
        pytest.param(
            {"/m/a": (1000, 0)}, ("/m/a", "/f/a"), 10000, id="its own by one of its directories"
        ),
        pytest.param({"/a": (1 << 40, 0)}, (), 0, id="more than the host has"),
        pytest.param(
            {"/a": (1 << 40, 60000)}, (), 4464, id="more than the host has, used for cache"
        ),
        pytest.param({"/a": (10000, 0), "/b": (10000, 0)}, (), 0, id="never below nothing"),
    ],
)
def test_room(promises: Promises, apart_from: tuple[str, ...], room: int) -> None:
    total = 64 * 1024  # in MiB; the reserve is 2 GiB
    in_mib = {path: (limit * MIB, usage * MIB) for path, (limit, usage) in promises.items()}
    here = scheduler(total * MIB, (10000 + 2048) * MIB, in_mib)
    assert here.room(apart_from) == room * MIB


def test_a_host_without_memory_left_has_no_room() -> None:
    assert scheduler(8 * GIB, 100 * MIB).room() == 0


jobs = st.dictionaries(
    st.sampled_from(["/a", "/b", "/c", "/d"]),
    st.tuples(st.integers(1, 16 * GIB), st.integers(0, 16 * GIB)),
)


@given(st.integers(256 * MIB, 64 * GIB), st.integers(0, 64 * GIB), jobs)
def test_room_never_exceeds_what_is_available_or_the_cap(
    total: int, available: int, promises: Promises
) -> None:
    here = scheduler(total, min(available, total), promises)
    assert 0 <= here.room() <= max(0, min(available, here.cap()))


@given(st.integers(GIB, 64 * GIB), st.lists(st.integers(1, 8 * GIB), max_size=8))
def test_memory_is_never_promised_twice(total: int, wishes: list[int]) -> None:
    promises: Promises = {}
    here = scheduler(total, total, promises)
    for number, wish in enumerate(wishes):
        if wish <= here.room():
            promises[f"/{number}"] = (wish, 0)  # it uses nothing of it yet
    assert sum(limit for limit, _ in promises.values()) <= here.cap()


@given(st.integers(GIB, 64 * GIB), jobs, st.integers(0, 8 * GIB))
def test_a_job_that_uses_what_it_was_promised_takes_no_room_from_others(
    total: int, promises: Promises, use: int
) -> None:
    limit = 8 * GIB
    before = scheduler(total, total, promises | {"/mine": (limit, 0)}).room()
    after = scheduler(total, total - use, promises | {"/mine": (limit, use)}).room()
    if limit <= total:
        assert after == before


@pytest.mark.parametrize("tree", ["v1-host", "v2-host"])
def test_promises_are_read_from_the_cgroups_of_the_jobs(tree: str) -> None:
    family = find_hierarchies(TREES / tree).family()[0]
    assert promises_below(family) == {
        str(family / "abcdefgh-1"): (256 * MIB, 232 * MIB),
        str(family / "bcdefghj-2"): (512 * MIB, MIB),
    }  # and not the one without a limit, on v1 a number and on v2 the word max


@pytest.mark.parametrize(
    ("limit", "promised"),
    [(str(NO_LIMIT), False), (str(NO_LIMIT - 1), True), ("max", False), ("-1", False), ("", False)],
)
@pytest.mark.parametrize(
    "files",
    [("memory.limit_in_bytes", "memory.usage_in_bytes"), ("memory.max", "memory.current")],
    ids=["v1", "v2"],
)
def test_no_limit_is_no_promise(
    limit: str, promised: bool, files: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / files[0]).write_text(f"{limit}\n")
    (tmp_path / "job" / files[1]).write_text("4096\n")
    assert bool(promises_below(tmp_path)) is promised


def test_a_host_without_jobs_has_no_promises(tmp_path: Path) -> None:
    assert promises_below(tmp_path / "outgrow") == {}
    (tmp_path / "outgrow").mkdir()
    (tmp_path / "outgrow/cgroup.procs").write_text("")
    (tmp_path / "outgrow/ending").mkdir()  # its files are gone already
    assert promises_below(tmp_path / "outgrow") == {}
