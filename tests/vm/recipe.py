"""What is in the machine: data, and the key under which a build of it is cached."""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path

GUEST = Path(__file__).with_name("guest")

PLAIN_REQUIREMENTS = "click\nrich\nmsgspec\nblake3\n"
"""What outgrow imports, for a checkout without a `requirements.lock`."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a build holds. A change of any field means another build."""

    requirements: str
    """Text of the requirements file for the guest's Python packages; its hashes are checked
    when it has them."""

    suite: str = "trixie"
    """Debian 13: its kernel has no cgroup v1 at all and has MEM_SOFT_DIRTY on."""

    python: str = "3.13"
    """The suite's Python, for which wheels are picked."""

    packages: tuple[str, ...] = (
        "criu",
        "python3",
        "procps",
        "iproute2",
        "kmod",
        "iptables",  # CRIU's network lock
        "nftables",  # the same, its other way
    )
    """Beyond debootstrap's minbase, which has util-linux, tar, passwd and coreutils."""

    kernel: str = "linux-image-cloud-amd64"
    """Small, and with virtio, its console and ext4 built in."""

    modules: tuple[str, ...] = (
        "virtio_blk",
        # Without these CRIU refuses: it asks the kernel for sockets through them (FACTS).
        "nfnetlink",
        "nf_tables",
        "unix_diag",
        "inet_diag",
        "tcp_diag",
        "udp_diag",
        "raw_diag",
        "af_packet_diag",
        "netlink_diag",
        "tun",  # else `criu check` complains
    )
    """Loaded at boot, with what they need."""

    spare_modules: tuple[str, ...] = (
        # What `iptables-restore` asks for when CRIU locks a connection.
        "nft_compat",
        "xt_mark",
        "xt_tcpudp",
        "xt_conntrack",
        "nft_ct",
        "nft_reject_inet",
        # For tests with several network namespaces, or a root of their own.
        "veth",
        "bridge",
        "overlay",
        "loop",
    )
    """In the tree for the kernel to load by itself when they are asked for."""

    users: tuple[tuple[str, int], ...] = (("alice", 1001), ("bob", 1002))
    """Ordinary users, name and uid (the gid is the same), each with a home and bash."""

    dropped: tuple[str, ...] = (
        "boot",
        "etc/hosts",  # debootstrap copied this host's own two files
        "etc/resolv.conf",
        "usr/bin/perl*",
        "usr/bin/sqv",
        "usr/lib/apt",
        "usr/lib/python3.*/pydoc_data",
        "usr/lib/python3.*/test",
        "usr/lib/x86_64-linux-gnu/gconv",
        "usr/lib/x86_64-linux-gnu/perl-base",
        "usr/share/bash-completion",
        "usr/share/doc",
        "usr/share/info",
        "usr/share/lintian",
        "usr/share/locale",
        "usr/share/man",
        "usr/share/zoneinfo",
        "var/cache",
        "var/lib/apt",
        "var/lib/dpkg/info",
        "var/log",
    )
    """Removed after the installation, as patterns: every byte of the tree is unpacked into the
    machine's memory at each boot, and nothing is installed there."""

    def key(self) -> str:
        """Names a build: equal for equal recipes equal code beside it, and for nothing else."""
        digest = hashlib.sha256()
        for field in fields(self):
            digest.update(f"{field.name}={getattr(self, field.name)!r}\n".encode())
        for file in (GUEST / "init", GUEST / "fstab", Path(__file__).with_name("base.py")):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]


def recipe_for(checkout: Path) -> Recipe:
    """The recipe for a checkout of outgrow: its `requirements.lock`, where it has one."""
    lock = checkout / "requirements.lock"
    return Recipe(requirements=lock.read_text() if lock.is_file() else PLAIN_REQUIREMENTS)
