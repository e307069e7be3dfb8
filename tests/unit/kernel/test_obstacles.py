"""Obstacles of a process, by the example of this one."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from outgrow.core.obstacles import (
    DEAD_SESSION,
    LEADER_ENDED,
    LEFT,
    NOT_ACCEPTED,
    OTHER_RIGHTS,
    SYSTEM_V_MEMORY,
    TRACED,
    VFORK,
    Obstacle,
    connected_to,
    in_namespace,
)
from outgrow.kernel.obstacles import find_obstacles


def kinds() -> set[str]:
    return {obstacle.reason.what for obstacle in find_obstacles([os.getpid()])}


def test_an_ordinary_process_has_none(tmp_path: Path) -> None:
    pair = socket.socketpair()
    with (tmp_path / "file").open("wb"), pair[0], pair[1]:
        assert kinds() == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors of sockets: run it as root")
def test_a_socket_is_known_by_its_protocol() -> None:
    try:
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    except OSError:
        pytest.skip("needs multipath TCP: sysctl net.mptcp.enabled=1")
    with held:
        assert kinds() == {"a multipath TCP socket"}
    assert kinds() == set()


def test_who_is_traced_says_so(tmp_path: Path) -> None:
    process = tmp_path / "7"
    (process / "fd").mkdir(parents=True)
    (process / "status").write_text("Name:\tx\nTracerPid:\t31\n")
    (obstacle,) = find_obstacles([7], tmp_path)
    assert (obstacle.pid, obstacle.reason) == (7, TRACED)
    (process / "status").write_text("Name:\tx\nTracerPid:\t0\n")
    assert find_obstacles([7], tmp_path) == []


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    assert find_obstacles([7], tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors: run it as root")
def test_a_socket_may_have_no_name() -> None:
    """getsockname(2) refuses those of AF_XDP."""
    try:
        held = socket.socket(44, socket.SOCK_RAW)
    except OSError:
        pytest.skip("needs AF_XDP: a kernel with CONFIG_XDP_SOCKETS, and root")
    with held:
        assert kinds() == {"an XDP socket"}
    assert kinds() == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors: run it as root")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_connection_that_was_not_accepted_passes(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"needs the address {address}")
    with listener, socket.create_connection(listener.getsockname()[:2]):
        assert kinds() == {NOT_ACCEPTED.what}
        with listener.accept()[0]:
            assert kinds() == set()


def test_a_parent_in_vfork_waits_where_nobody_can_stop_it(tmp_path: Path) -> None:
    for task, place in ((7, "do_freezer_trap"), (8, "kernel_clone")):
        (tmp_path / f"7/task/{task}").mkdir(parents=True)
        (tmp_path / f"7/task/{task}/wchan").write_text(place)
    (tmp_path / "7/status").write_text("TracerPid:\t0\n")
    (obstacle,) = find_obstacles([7], tmp_path)
    assert obstacle.reason is VFORK
    (tmp_path / "7/task/8/wchan").write_text("0")
    assert find_obstacles([7], tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors: run it as root")
def test_no_file_of_the_job_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    really = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda path, **words: asked.append(os.readlink(path)) or really(path, **words)
    )
    with (tmp_path / "file").open("wb"), Path("/dev/null").open("rb"):
        kinds()
    assert "/dev/null" in asked
    assert not [path for path in asked if not path.startswith("/dev/")]


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors: run it as root")
def test_events_that_were_not_read_pass(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    libc.inotify_add_watch(watch, os.fsencode(tmp_path), 0x100)
    assert kinds() == set()
    (tmp_path / "new").touch()
    (obstacle,) = find_obstacles([os.getpid()])
    assert (obstacle.reason.passes, obstacle.reason.lost) == (True, True)
    assert os.read(watch, 4096)
    assert kinds() == set()
    os.close(watch)


def tree(folder: Path, **stats: tuple[str, int, int, int]) -> Path:
    """Processes by `p<PID>`: state, parent, session, start."""
    for name, (state, parent, session, start) in stats.items():
        process = folder / name.removeprefix("p")
        process.mkdir()
        fields = [state, str(parent), "0", str(session), *["0"] * 15, str(start)]
        (process / "stat").write_text(f"{process.name} (a) b) {' '.join(fields)}\n")
    return folder


def live_in(folder: Path, pid: int, **namespaces: str) -> None:
    (folder / f"{pid}/ns").mkdir()
    kinds = dict.fromkeys(("mnt", "user", "pid", "net", "ipc", "uts", "cgroup"), "[1]") | namespaces
    for kind, name in kinds.items():
        (folder / f"{pid}/ns/{kind}").symlink_to(f"{kind}:{name}")


def test_the_job_is_one_tree(tmp_path: Path) -> None:
    proc = tree(
        tmp_path,
        p20=("S", 4, 20, 100),
        p21=("S", 20, 20, 101),
        p22=("S", 21, 22, 100),
        p23=("S", 20, 19, 90),
    )
    assert find_obstacles([23, 22, 21, 20], proc) == []
    assert find_obstacles([21], proc) == []


def test_what_is_outside_of_the_tree_is_left_behind(tmp_path: Path) -> None:
    proc = tree(tmp_path, p20=("S", 4, 20, 100), p21=("S", 4, 21, 100), p22=("S", 21, 21, 100))
    assert find_obstacles([22, 21, 20], proc) == [Obstacle(21, LEFT)]


def test_a_parent_that_goes_while_we_look_leaves_nobody_behind(tmp_path: Path) -> None:
    proc = tree(tmp_path, p20=("S", 4, 20, 100), p22=("S", 21, 20, 102))
    assert find_obstacles([22, 21, 20], proc) == []


def test_a_session_whose_leader_is_a_zombie_cannot_be_made_anew(tmp_path: Path) -> None:
    proc = tree(tmp_path, p20=("S", 4, 20, 100), p21=("Z", 20, 21, 101), p22=("S", 20, 21, 102))
    assert find_obstacles([20, 22], proc) == [Obstacle(22, DEAD_SESSION)]


@pytest.mark.skipif(os.geteuid() != 0, reason="looks into descriptors: run it as root")
def test_a_unix_socket_to_the_outside(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    program = f"""
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind({path!r})
listener.listen()
print(flush=True)
with listener.accept()[0] as server:
    print(flush=True)
    sys.stdin.read()
"""
    with (
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
        socket.socket(socket.AF_UNIX) as client,
    ):
        assert other.stdout is not None
        other.stdout.readline()
        client.connect(path)
        other.stdout.readline()
        name = Path(f"/proc/{other.pid}/comm").read_text().strip()
        assert kinds() == {connected_to(name).what}
        assert find_obstacles([os.getpid(), other.pid]) == []
        other.communicate()
    assert kinds() == set()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param({}, {}, [], id="those of everybody"),
        pytest.param({"net": "[2]"}, {"net": "[2]"}, [], id="a network of the job's own"),
        pytest.param({"mnt": "[2]"}, {"mnt": "[2]"}, [(20, "mount")], id="mounts of its own"),
        pytest.param({}, {"net": "[2]"}, [(21, "network")], id="a network of a child"),
        pytest.param({}, {"uts": "[2]"}, [(21, "host name")], id="a host name of a child"),
    ],
)
def test_namespaces_of_which_an_engine_takes_none(
    tmp_path: Path,
    first: dict[str, str],
    second: dict[str, str],
    expected: list[tuple[int, str]],
) -> None:
    proc = tree(tmp_path, p4=("S", 1, 4, 1), p20=("S", 4, 20, 100), p21=("S", 20, 20, 101))
    live_in(tmp_path, 4)
    live_in(tmp_path, 20, **first)
    live_in(tmp_path, 21, **second)
    found = [(obstacle.pid, obstacle.reason) for obstacle in find_obstacles([20, 21], proc)]
    assert found == [(pid, in_namespace(kind)) for pid, kind in expected]


@pytest.mark.parametrize(("ipc", "is_one"), [("[1]", True), ("[2]", False)])
def test_system_v_memory_goes_with_an_ipc_namespace_only(
    tmp_path: Path, ipc: str, is_one: bool
) -> None:
    proc = tree(tmp_path, p4=("S", 1, 4, 1), p20=("S", 4, 20, 100))
    live_in(tmp_path, 4)
    live_in(tmp_path, 20, ipc=ipc)
    (tmp_path / "20/maps").write_text("7f00-7f10 rw-s 00000000 00:01 5   /SYSV00000000 (deleted)\n")
    assert [found.reason for found in find_obstacles([20], proc)] == [SYSTEM_V_MEMORY] * is_one


@pytest.mark.parametrize(
    ("capabilities", "uid", "gid", "is_one"),
    [
        pytest.param("0000000001000000", "9 9 9 9", "9 9 9 9", False, id="with the capability"),
        pytest.param("0000000000ffffff", "0 0 0 0", "0 0 0 0", False, id="of the same user"),
        pytest.param("0000000000ffffff", "0 0 9 0", "0 0 0 0", True, id="a saved user id"),
        pytest.param("0000000000ffffff", "0 0 0 0", "0 9 0 0", True, id="a group id"),
    ],
)
def test_rights_that_an_engine_cannot_look_at(
    tmp_path: Path, capabilities: str, uid: str, gid: str, is_one: bool
) -> None:
    proc = tree(tmp_path, p20=("S", 4, 20, 100), pself=("R", 4, 20, 100))
    (tmp_path / "self/status").write_text(
        f"Uid:\t0 0 0 0\nGid:\t0 0 0 0\nCapEff:\t{capabilities}\n"
    )
    (tmp_path / "20/status").write_text(f"TracerPid:\t0\nUid:\t{uid}\nGid:\t{gid}\n")
    assert [found.reason for found in find_obstacles([20], proc)] == [OTHER_RIGHTS] * is_one


def test_a_main_thread_that_ended_before_the_others(tmp_path: Path) -> None:
    proc = tree(tmp_path, p20=("Z", 4, 20, 100))
    for thread in (20, 23):
        (proc / f"20/task/{thread}").mkdir(parents=True)
        (proc / f"20/task/{thread}/wchan").write_text("0")
    (proc / "20/status").write_text("TracerPid:\t0\n")
    assert [found.reason for found in find_obstacles([20], proc)] == [LEADER_ENDED]
