"""Which cgroups this host has, and where a job's own may stand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from outgrow.core.errors import Unsupported
from outgrow.kernel.cgroup_v1 import CgroupV1
from outgrow.kernel.cgroup_v2 import CgroupV2
from outgrow.kernel.files import read

FAMILY = "outgrow"
"""The directory below which all jobs of one parent cgroup stand."""


@dataclass(frozen=True)
class Hierarchies:
    """Mount points: `memory` and `freezer` on v1; `unified` where v2 has the memory controller."""

    memory: Path | None
    freezer: Path | None
    unified: Path | None
    own: dict[str, str]
    """This process's cgroup per v1 controller, and under "" that of v2."""

    @property
    def version(self) -> int | None:
        """1, 2, or None where no job can be limited. v1 where both have what it takes, for then
        the memory controller is there."""
        if self.memory is not None and self.freezer is not None:
            return 1
        return 2 if self.unified is not None else None

    def family(self) -> tuple[Path, ...]:
        """The directories below which this host's jobs stand: memory first."""
        if self.version == 1 and self.memory and self.freezer:
            return (
                self.memory / self.own.get("memory", "/").lstrip("/") / FAMILY,
                self.freezer / self.own.get("freezer", "/").lstrip("/") / FAMILY,
            )
        if self.unified is not None:
            # A cgroup with processes cannot have limited children (no internal processes), and
            # ours has at least this one; so that jobs stand below the root of the tree.
            return (self.unified / FAMILY,)
        raise Unsupported(
            "limiting memory: no memory cgroup is mounted",
            remedy="mount cgroup v2 with the memory controller (`outgrow doctor` says more)",
        )

    def cgroup(self, name: str) -> CgroupV1 | CgroupV2:
        """The cgroup `name`, not made yet. Raises Unsupported."""
        return open_cgroup(tuple(str(path / name) for path in self.family()))


def left_by(job: str, also: tuple[str, ...] = ()) -> list[CgroupV1 | CgroupV2]:
    """Every cgroup that incarnations of a job left, whoever made it; `also`: the paths of one that
    may stand elsewhere."""
    found = {also} if also else set()
    hierarchies = find_hierarchies()
    if hierarchies.version is not None:
        family = hierarchies.family()
        for path in family[0].glob(f"{job}-*"):
            found.add(tuple(str(parent / path.name) for parent in family))
    return [open_cgroup(paths) for paths in sorted(found)]


def open_cgroup(paths: tuple[str, ...]) -> CgroupV1 | CgroupV2:
    """The cgroup that stands, or will stand, at `paths`, as `Cgroup.paths` gave them."""
    if len(paths) == 2:
        return CgroupV1(Path(paths[0]), Path(paths[1]))
    return CgroupV2(Path(paths[0]))


def find_hierarchies(root: Path = Path("/")) -> Hierarchies:
    """What is mounted, read from /proc/self below `root`."""
    memory = freezer = unified = None
    own = _own(root)
    for line in read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        mount = root / _unescape(fields[4]).lstrip("/")
        shown = _unescape(fields[3])  # the directory of the hierarchy that is mounted here
        kind, _, options = after.split(" ", 2)
        controllers = options.split(",")
        if kind == "cgroup" and "memory" in controllers and memory is None:
            memory, own["memory"] = mount, _below(shown, own.get("memory", "/"))
        if kind == "cgroup" and "freezer" in controllers and freezer is None:
            freezer, own["freezer"] = mount, _below(shown, own.get("freezer", "/"))
        if kind == "cgroup2" and "memory" in _controllers(mount):
            unified = unified or mount
    return Hierarchies(memory, freezer, unified, own)


def _below(shown: str, path: str) -> str:
    """`path` as seen from a mount that shows the directory `shown` of the hierarchy."""
    if shown == "/" or not (path == shown or path.startswith(f"{shown}/")):
        return path
    return path[len(shown) :] or "/"


def _controllers(mount: Path) -> list[str]:
    try:
        return read(mount / "cgroup.controllers").split()
    except OSError:
        return []


def _own(root: Path) -> dict[str, str]:
    own = {}
    for line in read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        # A cgroup that outgrow itself made for another job is never the parent of one.
        path = path.split(f"/{FAMILY}/", 1)[0] or "/"
        for controller in controllers.split(","):
            own[controller] = path
    return own


def _unescape(path: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path
