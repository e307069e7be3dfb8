"""Which cgroups a host has, and where its jobs stand."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from outgrow.core.errors import Unsupported
from outgrow.core.units import MIB
from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2
from outgrow.kernel.cgroups import Hierarchies, find_hierarchies, open_cgroup

from .trees import TREES, copy_tree

CGROUP = "sys/fs/cgroup"
SLURM = "slurm_n1/uid_1000/job_42/step_batch"
SESSION = "user.slice/user-0.slice/session-3.scope"


@pytest.mark.parametrize(
    ("tree", "version", "family"),
    [
        ("v1-host", 1, [f"memory/{SESSION}/outgrow", "freezer/outgrow"]),
        ("hybrid-host", 1, ["memory/session/one/outgrow", "freezer/outgrow"]),
        ("hybrid-memory-on-v2", 2, ["unified/outgrow"]),
        ("v2-host", 2, ["outgrow"]),
        ("slurm-v1", 1, [f"memory/{SLURM}/task_0/outgrow", f"freezer/{SLURM}/outgrow"]),
        ("slurm-v2", 2, ["outgrow"]),
        ("inside-a-job-v1", 1, ["memory/batch/outgrow", "freezer/outgrow"]),
        ("container-v2", 2, ["outgrow"]),
    ],
)
def test_where_a_hosts_jobs_stand(tree: str, version: int, family: list[str]) -> None:
    hierarchies = find_hierarchies(TREES / tree)
    assert hierarchies.version == version
    assert hierarchies.family() == tuple(TREES / tree / CGROUP / path for path in family)


def test_a_container_sees_its_own_cgroup_at_the_mount_point() -> None:
    root = TREES / "container-v1" / CGROUP
    family = find_hierarchies(TREES / "container-v1").family()
    assert family == (root / "memory/outgrow", root / "freezer/outgrow")


@pytest.mark.parametrize("tree", ["no-memory-controller", "no-freezer", "no-cgroups"])
def test_a_host_that_cannot_limit_a_job_says_so(tree: str) -> None:
    hierarchies = find_hierarchies(TREES / tree)
    assert hierarchies.version is None
    with pytest.raises(Unsupported, match="no memory cgroup is mounted") as error:
        hierarchies.cgroup("abcdefgh-1")
    assert "doctor" in error.value.remedy


@pytest.mark.parametrize(
    ("tree", "kind", "paths"),
    [
        ("hybrid-memory-on-v2", CgroupV2, ["unified/outgrow/abcdefgh-1"]),
        ("v2-host", CgroupV2, ["outgrow/abcdefgh-1"]),
        (
            "v1-host",
            CgroupV1,
            [f"memory/{SESSION}/outgrow/abcdefgh-1", "freezer/outgrow/abcdefgh-1"],
        ),
    ],
)
def test_a_jobs_cgroup_is_found_again_by_its_paths(
    tree: str, kind: type[CgroupV1 | CgroupV2], paths: list[str]
) -> None:
    cgroup = find_hierarchies(TREES / tree).cgroup("abcdefgh-1")
    assert isinstance(cgroup, kind)
    assert cgroup.paths == tuple(str(TREES / tree / CGROUP / path) for path in paths)
    again = open_cgroup(cgroup.paths)
    assert isinstance(again, kind)
    assert again.paths == cgroup.paths
    assert again.processes() == [4101, 4102, 4200, 4201, 4202]


@pytest.mark.parametrize("tree", ["container-v1", "container-v2"])
def test_a_cgroup_that_cannot_be_made_is_unsupported(
    tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", read_only)
    cgroup = find_hierarchies(copy_tree(tree, tmp_path)).cgroup("abcdefgh-1")
    with pytest.raises(Unsupported, match="Read-only file system") as error:
        cgroup.create(256 * MIB)
    assert "root" in error.value.remedy


def test_v1_is_taken_where_both_have_what_it_takes() -> None:
    both = Hierarchies(Path("/m"), Path("/f"), Path("/u"), {})
    assert both.version == 1
    assert both.family() == (Path("/m/outgrow"), Path("/f/outgrow"))


@pytest.mark.parametrize(
    ("line", "mount"),
    [
        pytest.param("35 28 0:33 / /c/memory rw - cgroup cgroup rw,memory", "c/memory", id="plain"),
        pytest.param(
            "35 28 0:33 / /c/memory rw shared:18 master:2 propagate_from:1 - cgroup x rw,memory",
            "c/memory",
            id="optional fields",
        ),
        pytest.param(
            r"35 28 0:33 / /my\040c\011group/\134040 rw - cgroup cgroup rw,memory",
            "my c\tgroup/\\040",
            id="characters that mountinfo escapes",
        ),
        pytest.param(
            "35 28 0:33 / /c/cpu,memory rw - cgroup cgroup rw,cpu,memory",
            "c/cpu,memory",
            id="together with another controller",
        ),
        pytest.param(
            "35 28 0:33 / /c/memory rw - tmpfs memory rw,memory", None, id="another file system"
        ),
        pytest.param(
            "35 28 0:33 / /c/memory rw - cgroup cgroup rw,memory2", None, id="another controller"
        ),
    ],
)
def test_a_mount_is_read_as_the_kernel_writes_it(
    line: str, mount: str | None, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(line + "\n")
    (tmp_path / "proc/self/cgroup").write_text("8:memory:/\n")
    expected = None if mount is None else tmp_path / mount
    assert find_hierarchies(tmp_path).memory == expected


@pytest.mark.parametrize(
    ("line", "controller", "own"),
    [
        pytest.param("8:memory:/a:b/c", "memory", "/a:b/c", id="a colon in the path"),
        pytest.param("3:cpu,cpuacct:/x", "cpuacct", "/x", id="two controllers"),
        pytest.param("0::/user.slice", "", "/user.slice", id="v2"),
        pytest.param("8:memory:/outgrow/abcdefgh-1", "memory", "/", id="inside a job at the root"),
        pytest.param("8:memory:/a/outgrow/abcdefgh-1/b", "memory", "/a", id="inside a job"),
        pytest.param("8:memory:/outgrowth/x", "memory", "/outgrowth/x", id="a name like ours"),
    ],
)
def test_the_own_cgroup_is_read_as_the_kernel_writes_it(
    line: str, controller: str, own: str, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("")
    (tmp_path / "proc/self/cgroup").write_text(line + "\n")
    assert find_hierarchies(tmp_path).own[controller] == own


def test_another_mount_of_a_part_of_the_hierarchy_changes_nothing(tmp_path: Path) -> None:
    """As container engines leave them on a host."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(
        "35 28 0:33 / /c/memory rw - cgroup cgroup rw,memory\n"
        "34 28 0:32 / /c/freezer rw - cgroup cgroup rw,freezer\n"
        "99 28 0:33 /user.slice /var/lib/x/memory rw - cgroup cgroup rw,memory\n"
    )
    (tmp_path / "proc/self/cgroup").write_text("8:memory:/user.slice/ann\n9:freezer:/\n")
    assert find_hierarchies(tmp_path).family() == (
        tmp_path / "c/memory/user.slice/ann/outgrow",
        tmp_path / "c/freezer/outgrow",
    )
