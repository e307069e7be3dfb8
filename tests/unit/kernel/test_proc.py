"""What /proc says, on a tree of files and on this very process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outgrow.kernel import proc

from .trees import TREES, copy_tree

PROC = TREES / "processes/proc"
ARM = TREES / "processes-arm/proc"


@pytest.mark.parametrize(
    ("pid", "ticks"),
    [
        pytest.param(41, 8123, id="plain"),
        pytest.param(42, 77777, id="parentheses and a state in the name"),
        pytest.param(43, 99, id="a space in the name"),
        pytest.param(44, None, id="gone"),
    ],
)
def test_when_a_process_started(pid: int, ticks: int | None) -> None:
    kin = proc.kinship(pid, PROC)
    assert (None if kin is None else kin.start) == ticks


def test_the_kinship_of_this_process() -> None:
    kin = proc.kinship(os.getpid())
    assert kin is not None
    assert (kin.state, kin.parent, kin.session) == ("R", os.getppid(), os.getsid(0))


@pytest.mark.parametrize(
    ("pid", "ids"),
    [
        pytest.param(41, {7, 9}, id="the innermost number of each thread"),
        pytest.param(42, {1, 2, 3}, id="process, group and session, three namespaces deep"),
        pytest.param(43, {43}, id="no namespace, and a name that looks like one"),
        pytest.param(99, set(), id="gone"),
    ],
)
def test_namespace_ids(pid: int, ids: set[int]) -> None:
    assert proc.namespace_ids(pid, PROC) == ids


def test_namespace_ids_of_this_process() -> None:
    assert os.getpid() in proc.namespace_ids(os.getpid())
    assert os.getsid(0) in proc.namespace_ids(os.getpid())


def test_a_thread_that_ends_meanwhile_hides_no_other(tmp_path: Path) -> None:
    tree = copy_tree("processes", tmp_path) / "proc"
    (tree / "41/task/41/status").unlink()
    assert proc.namespace_ids(41, tree) == {7, 9}


def test_memory_of_the_host() -> None:
    total, available = proc.memory_total_and_available(PROC)
    assert (total, available) == (24580000 * 1024, 20480000 * 1024)


def test_a_kernel_without_memavailable_gives_what_is_free() -> None:
    assert proc.memory_total_and_available(ARM) == (512 << 20, 256 << 20)


def test_memory_of_this_host() -> None:
    total, available = proc.memory_total_and_available()
    assert 0 < available <= total


@pytest.mark.parametrize(("tree", "size"), [(PROC, 2097148 * 1024), (ARM, 0)])
def test_swap(tree: Path, size: int) -> None:
    assert proc.swap_total(tree) == size


@pytest.mark.parametrize(
    ("tree", "features"),
    [(PROC, {"fpu", "sse2", "avx2"}), (ARM, {"fp", "asimd", "sve"})],
)
def test_cpu_features(tree: Path, features: set[str]) -> None:
    assert proc.cpu_features(tree) == features


def test_a_cpu_that_names_no_features(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\n")
    assert proc.cpu_features(tmp_path) == frozenset()


def test_children_that_have_ended_still_have_their_numbers() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert proc.with_zombies([os.getpid()]) >= {os.getpid(), child}
    assert child in proc.namespace_ids(child)
    os.waitpid(child, 0)
    assert child not in proc.with_zombies([os.getpid(), 2**22 + 1])
