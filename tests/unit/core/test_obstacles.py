"""What no engine can write down, by what a descriptor is."""

from __future__ import annotations

import stat

import pytest

from outgrow.core.obstacles import OWN_CGROUP, Held, Obstacle, Reason, obstacle_in

ANONYMOUS, CHARACTER, SOCKET = 0o600, stat.S_IFCHR | 0o666, stat.S_IFSOCK | 0o777


@pytest.mark.parametrize(
    ("held", "word"),
    [
        pytest.param(Held("anon_inode:[io_uring]", ANONYMOUS), "io_uring", id="io_uring"),
        pytest.param(Held("anon_inode:[perf_event]", ANONYMOUS), "counter", id="perf"),
        pytest.param(Held("anon_inode:[userfaultfd]", ANONYMOUS), "userfaultfd", id="uffd"),
        pytest.param(Held("anon_inode:kvm-vm", ANONYMOUS), "KVM", id="kvm"),
        pytest.param(Held("/dev/nvidia0", CHARACTER), "NVIDIA", id="a GPU"),
        pytest.param(Held("/dev/infiniband/uverbs0", CHARACTER), "RDMA", id="RDMA"),
        pytest.param(Held("/dev/fuse", CHARACTER), "FUSE", id="FUSE"),
        pytest.param(Held("/dev/vdb", stat.S_IFBLK | 0o660), "/dev/vdb", id="a disk"),
        pytest.param(Held("socket:[5]", SOCKET, family=40), "VSOCK", id="vsock"),
        pytest.param(Held("socket:[5]", SOCKET, family=2, protocol=262), "multipath", id="mptcp"),
        pytest.param(Held("socket:[5]", SOCKET, family=10, protocol=132), "SCTP", id="sctp"),
    ],
)
def test_what_stands_in_the_way_has_a_name_and_a_remedy(held: Held, word: str) -> None:
    found = obstacle_in(held)
    assert found is not None
    assert word in found.what
    assert found.remedy
    assert not found.passes


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(Held("anon_inode:[eventfd]", ANONYMOUS), id="eventfd"),
        pytest.param(Held("anon_inode:[eventpoll]", ANONYMOUS), id="epoll"),
        pytest.param(Held("anon_inode:inotify", ANONYMOUS), id="inotify"),
        pytest.param(Held("anon_inode:[pidfd]", ANONYMOUS), id="pidfd"),
        pytest.param(Held("anon_inode:[something new]", ANONYMOUS), id="never heard of"),
        pytest.param(Held("/dev/null", CHARACTER), id="a null device"),
        pytest.param(Held("/dev/pts/3", CHARACTER), id="a terminal"),
        pytest.param(Held("/home/nvidia0", stat.S_IFREG | 0o644), id="a file of such a name"),
        pytest.param(Held("/dev/nvidia0", stat.S_IFREG | 0o644), id="a file in such a place"),
        pytest.param(Held("socket:[5]", SOCKET, family=1), id="a Unix socket"),
        pytest.param(Held("socket:[5]", SOCKET, family=2, protocol=6), id="TCP"),
        pytest.param(Held("socket:[5]", SOCKET), id="a socket of which nothing is known"),
        pytest.param(Held("pipe:[5]", stat.S_IFIFO | 0o600), id="a pipe"),
    ],
)
def test_what_may_go_well_is_left_to_the_engine(held: Held) -> None:
    assert obstacle_in(held) is None


@pytest.mark.parametrize(
    ("link", "found"),
    [
        pytest.param(
            "/sys/fs/cgroup/memory/a/outgrow/abcdefgh-1/memory.usage_in_bytes", True, id="v1"
        ),
        pytest.param("/sys/fs/cgroup/outgrow/abcdefg2-12/memory.current", True, id="v2"),
        pytest.param("/sys/fs/cgroup/memory/memory.usage_in_bytes", False, id="the root's"),
        pytest.param("/home/a/outgrow/abcdefgh-1/memory.current", False, id="elsewhere"),
    ],
)
def test_a_file_of_the_jobs_own_cgroup_passes(link: str, found: bool) -> None:
    assert obstacle_in(Held(link)) is (OWN_CGROUP if found else None)


def test_an_obstacle_says_whose_it_is() -> None:
    assert str(Obstacle(12, Reason("an io_uring", ""))) == "process 12 holds an io_uring"
