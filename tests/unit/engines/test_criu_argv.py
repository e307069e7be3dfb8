"""CRIU's command lines, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from outgrow.engines.criu.argv import dump_argv, restore_argv
from outgrow.ports import StreamKey

IMAGES = Path("/var/lib/outgrow/store/abcdefgh/3.partial/images")
DUMP = [
    *("/opt/criu", "dump", "--no-default-config", "--tree", "7", "--images-dir", str(IMAGES)),
    *("--log-file", "dump.log", "-v2", "--leave-running"),
    *("--manage-cgroups=ignore", "--freeze-cgroup", "/sys/fs/cgroup/freezer/outgrow/abcdefgh-1"),
    *("--file-locks", "--ext-unix-sk", "--ghost-limit", "1G"),
]
RESTORE = [
    *("/opt/criu", "restore", "--no-default-config", "--images-dir", str(IMAGES)),
    *("--log-file", "restore.log", "-v2"),
    *("--restore-detached", "--restore-sibling", "--manage-cgroups=ignore"),
    *("--file-locks", "--ext-unix-sk", "--tcp-established"),
]
PIPE = StreamKey(1, "pipe:[501]")
TWIN = StreamKey(2, "pipe:[501]")
FILE = StreamKey(1, "file[1a:9f]", "/home/ann/out", 1, 6)
TTY = StreamKey(0, "tty[8803:1a]")


@pytest.mark.parametrize(
    ("streams", "lock", "rest"),
    [
        pytest.param([], "skip", ["--network-lock", "skip"], id="files only, no connection"),
        pytest.param([], "iptables", ["--network-lock", "iptables"], id="a connection"),
        pytest.param(
            [PIPE], "skip", ["--network-lock", "skip", "--external", "pipe:[501]"], id="a pipe"
        ),
        pytest.param(
            [PIPE, TWIN],
            "skip",
            ["--network-lock", "skip", "--external", "pipe:[501]"],
            id="one pipe for two streams is named once",
        ),
        pytest.param(
            [TTY, PIPE],
            "nftables",
            [
                *("--network-lock", "nftables"),
                *("--external", "pipe:[501]", "--external", "tty[8803:1a]"),
            ],
            id="a terminal and a pipe",
        ),
        pytest.param(
            [FILE],
            "skip",
            ["--network-lock", "skip", "--external", "file[1a:9f]"],
            id="a file",
        ),
    ],
)
def test_dump(streams: list[StreamKey], lock: str, rest: list[str]) -> None:
    argv = dump_argv(
        "/opt/criu",
        root_pid=7,
        images=IMAGES,
        freezer="/sys/fs/cgroup/freezer/outgrow/abcdefgh-1",
        streams=streams,
        network_lock=lock,
        lossy=False,
    )
    assert argv == [*DUMP, "--tcp-established", *rest]


@pytest.mark.parametrize(
    ("streams", "rest"),
    [
        pytest.param({}, [], id="files only"),
        pytest.param({"pipe:[501]": 11}, ["--inherit-fd", "fd[11]:pipe:[501]"], id="a pipe"),
        pytest.param(
            {"tty[8803:1a]": 10, "pipe:[501]": 11},
            ["--inherit-fd", "fd[11]:pipe:[501]", "--inherit-fd", "fd[10]:tty[8803:1a]"],
            id="a terminal and a pipe",
        ),
        pytest.param(
            {"file[1a:9f]": 11}, ["--inherit-fd", "fd[11]:ile[1a:9f]"], id="a file, as CRIU has it"
        ),
    ],
)
def test_restore(streams: dict[str, int], rest: list[str]) -> None:
    assert restore_argv("/opt/criu", IMAGES, streams) == [*RESTORE, *rest]
