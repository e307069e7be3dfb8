"""What keeps a job from being saved: what it holds that no engine can write down."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """`what` a process holds, and the `remedy` for whoever starts the job. One that `passes` is
    gone by itself within milliseconds. One that can be `lost` keeps no engine from its work, but
    is not there any more when the job comes back."""

    what: str
    remedy: str
    passes: bool = False
    lost: bool = False


@dataclass(frozen=True)
class Obstacle:
    """Process `pid` cannot be saved for that reason."""

    pid: int
    reason: Reason

    def __str__(self) -> str:
        return f"process {self.pid} holds {self.reason.what}"


@dataclass(frozen=True)
class Held:
    """What a descriptor is: what /proc/PID/fd/N links to, st_mode of stat(2), and of a socket its
    family and protocol (socket(7), SO_DOMAIN and SO_PROTOCOL; 0 where not known)."""

    link: str
    mode: int = 0
    family: int = 0
    protocol: int = 0


_ANONYMOUS: dict[str, Reason] = {
    "[io_uring]": Reason(
        "an io_uring",
        "switch it off in the program: UV_USE_IO_URING=0 for Node.js and libuv,"
        " io_method=worker for PostgreSQL",
    ),
    "[perf_event]": Reason("a performance counter", "run it without perf, or another profiler"),
    "[userfaultfd]": Reason("a userfaultfd", "switch off what serves its page faults"),
    "bpf-prog": Reason("a BPF program", "load it from outside of the job"),
    "kvm-vm": Reason("a virtual machine (KVM)", "save inside of the virtual machine"),
    "kvm-vcpu": Reason("a virtual machine (KVM)", "save inside of the virtual machine"),
    "[landlock-ruleset]": Reason(
        "a Landlock rule set", "have it restrict itself before it opens more"
    ),
    "seccomp notify": Reason("a seccomp listener", "run it without its sandbox"),
}
"""By the name after `anon_inode:`. What CRIU takes (eventfd, epoll, inotify, fanotify, signalfd,
timerfd, pidfd, BPF maps: its files.c) is not among them, nor what nobody has tried."""
_DEVICES: tuple[tuple[str, Reason], ...] = (
    ("/dev/nvidia", Reason("a GPU (NVIDIA)", "saving GPU memory is not built yet")),
    ("/dev/kfd", Reason("a GPU (AMD)", "saving GPU memory is not built yet")),
    ("/dev/dri/", Reason("a GPU", "saving GPU memory is not built yet")),
    (
        "/dev/infiniband/",
        Reason("RDMA", "use TCP: UCX_TLS=tcp,self,sm, or --mca btl tcp,self,vader"),
    ),
    ("/dev/fuse", Reason("a FUSE filesystem of its own", "mount it outside of the job")),
    ("/dev/kvm", Reason("KVM", "save inside of the virtual machine")),
)
_SOCKETS: dict[int, Reason] = {
    38: Reason("a socket of the kernel's cryptography (AF_ALG)", "use the library's own"),
    40: Reason("a socket to its hypervisor (AF_VSOCK)", "use TCP"),
    29: Reason("a CAN bus socket", "talk to it from outside of the job"),
    31: Reason("a Bluetooth socket", "talk to it from outside of the job"),
    43: Reason("an SMC socket", "use TCP"),
    44: Reason("an XDP socket", "use UDP"),
}
"""By address family (include/linux/socket.h)."""
_INTERNET = (2, 10)
"""AF_INET and AF_INET6."""
_PROTOCOLS: dict[int, Reason] = {
    132: Reason("an SCTP socket", "use TCP"),
    262: Reason("a multipath TCP socket", "use TCP: GODEBUG=multipathtcp=0 for Go"),
}
"""By protocol (include/uapi/linux/in.h)."""


OWN_CGROUP = Reason("an open file of its own cgroup", "try again", passes=True)
"""The job comes back in another one, where no file of that name is. A JVM looks up its usage now
and then, and has the file open for microseconds."""
_OF_OWN_CGROUP = re.compile(r"/sys/fs/cgroup/(.*/)?outgrow/[a-z0-9]{8}-\d+/")


def obstacle_in(held: Held) -> Reason | None:
    """What of it cannot be saved, and the remedy; None when nothing is known against it."""
    if held.link.startswith("anon_inode:"):
        return _ANONYMOUS.get(held.link.removeprefix("anon_inode:"))
    if _OF_OWN_CGROUP.match(held.link):
        return OWN_CGROUP
    if stat.S_ISCHR(held.mode):
        for beginning, reason in _DEVICES:
            if held.link.startswith(beginning):
                return reason
    if stat.S_ISBLK(held.mode):
        return Reason(f"a disk ({held.link})", "use a file instead")
    if stat.S_ISSOCK(held.mode):
        if held.family in _INTERNET:
            return _PROTOCOLS.get(held.protocol)
        return _SOCKETS.get(held.family)
    return None


def connected_to(program: str) -> Reason:
    """A Unix socket whose other end `program` has, which is not of the job."""
    return Reason(
        f"a Unix socket to {program!r}, which is outside of the job",
        "have it close the connection when it needs it no more, or use TCP",
    )


def in_namespace(kind: str) -> Reason:
    """A namespace of its own, of which CRIU takes none below a job's first process."""
    return Reason(
        f"a {kind} namespace of its own",
        "run the job in the container, and not a container in the job",
    )


UNREAD_EVENTS = Reason("inotify events that it has not read", "try again", passes=True, lost=True)
UNREAD_DATAGRAMS = Reason("UDP datagrams that it has not read", "try again", passes=True, lost=True)
NOT_ACCEPTED = Reason(
    "TCP connections that it has not accepted", "try again", passes=True, lost=True
)
"""CRIU does not keep these three; a program takes them within milliseconds."""
VFORK = Reason("a child on its way from vfork to another program", "try again", passes=True)
"""Its parent waits for it in the kernel, where no tracer can stop it, and would wait for ever for a
child that is stopped."""
TRACED = Reason("a tracer that follows it", "run it without strace, gdb or another debugger")
LEFT = Reason(
    "a place apart from the job's other processes, for whoever started it is gone",
    "start it so that its parent stays: in the foreground, or with & from the job's own script",
    lost=True,
)
DEAD_SESSION = Reason(
    "a place in a session whose leader has ended and was not waited for",
    "start it without a daemon mode that forks twice",
)
"""CRIU makes such a session anew below the dead leader, and fails (prepare_pstree_ids in its
pstree.c)."""
LEADER_ENDED = Reason(
    "threads whose main thread has ended",
    "have the main thread wait for the others",
    passes=True,
)
"""Every process with threads looks like that in the moment in which it ends."""
SYSTEM_V_MEMORY = Reason(
    "System V shared memory",
    "start it with `unshare --ipc`, or have it use POSIX shared memory"
    " (shared_memory_type=mmap for PostgreSQL)",
)
OTHER_RIGHTS = Reason(
    "the rights of another user or group, which CRIU cannot look at without CAP_SYS_RESOURCE",
    "let whatever started outgrow (container, unit, login) keep CAP_SYS_RESOURCE",
)
