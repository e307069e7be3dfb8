"""CRIU's command lines, as pure functions. Options: criu(8), version 4.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from outgrow.ports import StreamKey

DUMP_LOG = "dump.log"
RESTORE_LOG = "restore.log"
_GHOST_LIMIT = "1G"
"""Deleted files that the job still has open travel inside the images up to this size each;
CRIU's own default, 1 MiB, refuses an ordinary temporary file."""

Locking = str
"""How CRIU keeps TCP connections from moving while they are written down: a value of
--network-lock, `skip` where the job has none."""


def dump_argv(
    criu: str,
    *,
    root_pid: int,
    images: Path,
    freezer: str,
    streams: Sequence[StreamKey],
    network_lock: Locking,
    lossy: bool,
) -> list[str]:
    """Write down the tree of `root_pid` and leave it frozen: a checkpoint that comes to nothing
    costs the job no more than the pause. Cgroups are outgrow's own business. A socket that only
    sends, such as to the system's log, is connected there again (--ext-unix-sk)."""
    argv = [
        criu,
        "dump",
        "--no-default-config",
        "--tree",
        str(root_pid),
        "--images-dir",
        str(images),
    ]
    argv += ["--log-file", DUMP_LOG, "-v2", "--leave-running"]
    argv += ["--manage-cgroups=ignore", "--freeze-cgroup", freezer]
    argv += ["--file-locks", "--ext-unix-sk", "--ghost-limit", _GHOST_LIMIT]
    argv += ["--tcp-established", "--network-lock", network_lock]
    if lossy:
        argv += ["--skip-in-flight"]
    for key in sorted({stream.key for stream in streams}):
        argv += ["--external", key]
    return argv


def restore_argv(criu: str, images: Path, streams: Mapping[str, int]) -> list[str]:
    """Bring the tree back as a child of whoever runs this (--restore-sibling), and leave."""
    argv = [
        criu,
        "restore",
        "--no-default-config",
        "--images-dir",
        str(images),
        "--log-file",
        RESTORE_LOG,
        "-v2",
    ]
    argv += ["--restore-detached", "--restore-sibling", "--manage-cgroups=ignore"]
    argv += ["--file-locks", "--ext-unix-sk", "--tcp-established"]
    for key, descriptor in sorted(streams.items()):
        argv += ["--inherit-fd", f"fd[{descriptor}]:{_as_restored(key)}"]
    return argv


def _as_restored(key: str) -> str:
    """CRIU looks for an external file by its name less the first letter, as if that were the slash
    of a path (collect_one_regfile in its files-reg.c). By its whole name it would open the file
    anew, with an offset of its own."""
    return key.removeprefix("f") if key.startswith("file[") else key
