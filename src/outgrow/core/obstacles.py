"""What keeps a job from being saved: what it holds that no engine can write down."""

from __future__ import annotations

import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Obstacle:
    """Process `pid` holds `what`; `remedy` is for whoever starts the job. One that `passes` is gone
    by itself in a moment, and a save without it would lose it."""

    pid: int
    what: str
    remedy: str
    passes: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} holds {self.what}"


@dataclass(frozen=True)
class Held:
    """What a descriptor is: what /proc/PID/fd/N links to, st_mode of stat(2), and of a socket its
    family and protocol (socket(7), SO_DOMAIN and SO_PROTOCOL; 0 where not known)."""

    link: str
    mode: int
    family: int = 0
    protocol: int = 0


_Reason = tuple[str, str]
_ANONYMOUS: dict[str, _Reason] = {
    "[io_uring]": (
        "an io_uring",
        "switch it off in the program: UV_USE_IO_URING=0 for Node.js and libuv,"
        " io_method=worker for PostgreSQL",
    ),
    "[perf_event]": ("a performance counter", "run it without perf, or another profiler"),
    "[userfaultfd]": ("a userfaultfd", "switch off what serves its page faults"),
    "bpf-prog": ("a BPF program", "load it from outside of the job"),
    "kvm-vm": ("a virtual machine (KVM)", "save inside of the virtual machine"),
    "kvm-vcpu": ("a virtual machine (KVM)", "save inside of the virtual machine"),
    "[landlock-ruleset]": ("a Landlock rule set", "have it restrict itself before it opens more"),
    "[seccomp notify]": ("a seccomp listener", "run it without its sandbox"),
}
"""By the name after `anon_inode:`. What CRIU takes (eventfd, epoll, inotify, fanotify, signalfd,
timerfd, pidfd, BPF maps: its files.c) is not among them, nor what nobody has tried."""
_DEVICES: tuple[tuple[str, _Reason], ...] = (
    ("/dev/nvidia", ("a GPU (NVIDIA)", "saving GPU memory is not built yet")),
    ("/dev/kfd", ("a GPU (AMD)", "saving GPU memory is not built yet")),
    ("/dev/dri/", ("a GPU", "saving GPU memory is not built yet")),
    ("/dev/infiniband/", ("RDMA", "use TCP: UCX_TLS=tcp,self,sm, or --mca btl tcp,self,vader")),
    ("/dev/fuse", ("a FUSE filesystem of its own", "mount it outside of the job")),
    ("/dev/kvm", ("KVM", "save inside of the virtual machine")),
)
_SOCKETS: dict[int, _Reason] = {
    38: ("a socket of the kernel's cryptography (AF_ALG)", "use the library's own"),
    40: ("a socket to its hypervisor (AF_VSOCK)", "use TCP"),
    29: ("a CAN bus socket", "talk to it from outside of the job"),
    31: ("a Bluetooth socket", "talk to it from outside of the job"),
    43: ("an SMC socket", "use TCP"),
    44: ("an XDP socket", "use UDP"),
}
"""By address family (include/linux/socket.h)."""
_INTERNET = (2, 10)
"""AF_INET and AF_INET6."""
_PROTOCOLS: dict[int, _Reason] = {
    132: ("an SCTP socket", "use TCP"),
    262: ("a multipath TCP socket", "use TCP: GODEBUG=multipathtcp=0 for Go"),
}
"""By protocol (include/uapi/linux/in.h)."""


def obstacle_in(held: Held) -> tuple[str, str] | None:
    """What of it cannot be saved, and the remedy; None when nothing is known against it."""
    if held.link.startswith("anon_inode:"):
        return _ANONYMOUS.get(held.link.removeprefix("anon_inode:"))
    if stat.S_ISCHR(held.mode):
        for beginning, reason in _DEVICES:
            if held.link.startswith(beginning):
                return reason
    if stat.S_ISBLK(held.mode):
        return f"a disk ({held.link})", "use a file instead"
    if stat.S_ISSOCK(held.mode):
        if held.family in _INTERNET:
            return _PROTOCOLS.get(held.protocol)
        return _SOCKETS.get(held.family)
    return None


UNREAD_EVENTS = ("inotify events that it has not read", "try again")
UNREAD_DATAGRAMS = ("UDP datagrams that it has not read", "try again")
PASSING = (UNREAD_EVENTS, UNREAD_DATAGRAMS)
"""CRIU does not keep these; a program reads them within milliseconds."""
TRACED = ("a tracer that follows it", "run it without strace, gdb or another debugger")
