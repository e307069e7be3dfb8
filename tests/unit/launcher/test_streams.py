"""How each standard stream can stay with a job, seen from a process that has it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from outgrow.core.errors import NotFound
from outgrow.launcher.handle import inherited_streams
from outgrow.launcher.streams import external_key, streams_for, streams_held_by
from outgrow.ports import StreamKey

LOOK = """
import json, os, sys
from dataclasses import asdict
from outgrow.launcher.streams import streams_for, take_streams
from outgrow.ports import StreamKey
if sys.argv[2] == "take":
    seen = take_streams()
else:
    seen = streams_for([StreamKey(**key) for key in json.loads(sys.argv[3])])
with open(sys.argv[1], "w") as file:
    json.dump({
        "descriptors": seen.descriptors,
        "kinds": [os.readlink(f"/proc/self/fd/{d}") for d in seen.descriptors],
        "reopen": seen.reopen,
        "keys": [asdict(key) for key in seen.keys],
        "relays": len(seen.relays),
    }, file)
if seen.relays:
    if min(seen.descriptors[:2]) > 2:
        os.write(seen.descriptors[1], os.read(seen.descriptors[0], 100))
    for descriptor in seen.descriptors:
        if descriptor > 2:
            os.close(descriptor)
    for relay in seen.relays:
        relay.wait(10)
"""


@dataclass
class Seen:
    """What a process made of its streams."""

    descriptors: list[int]
    kinds: list[str]
    reopen: list[dict[str, int | str]]
    keys: list[StreamKey]
    relays: int


Look = Callable[..., Seen]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    def look(*, outer: list[StreamKey] | None = None, **streams: Any) -> Seen:
        out = tmp_path / "seen.json"
        what = ["take"] if outer is None else ["outer", json.dumps([asdict(key) for key in outer])]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | streams
        streams.setdefault("stderr", subprocess.DEVNULL)
        subprocess.run(
            [sys.executable, "-c", LOOK, str(out), *what], check=True, timeout=30, **streams
        )
        seen = json.loads(out.read_text())
        seen["keys"] = [StreamKey(**key) for key in seen["keys"]]
        return Seen(**seen)

    return look


def null(stream: int, flags: int) -> dict[str, int | str]:
    return {"stream": stream, "path": "/dev/null", "flags": flags}


def test_devices_are_opened_again(look: Look) -> None:
    seen = look()
    assert seen.descriptors == [0, 1, 2]
    assert seen.reopen[0] == null(0, os.O_RDWR)
    assert [entry["stream"] for entry in seen.reopen] == [0, 1, 2]
    assert seen.keys == []
    assert seen.relays == 0


def file_key(stream: int, path: Path, flags: int, offset: int, mount: int = 0) -> StreamKey:
    return StreamKey(stream, f"file[{mount:x}:{path.stat().st_ino:x}]", str(path), flags, offset)


def without_mount(key: StreamKey) -> StreamKey:
    return replace(key, key=re.sub(r"file\[[0-9a-f]+:", "file[0:", key.key))


def test_a_file_stays_outside_and_is_known_by_its_place(look: Look, tmp_path: Path) -> None:
    source, target = tmp_path / "in put", tmp_path / "out"
    source.write_text("0123456789")
    with source.open("rb", buffering=0) as stdin, target.open("wb", buffering=0) as stdout:
        stdin.read(4)
        stdout.write(b"before")
        seen = look(stdin=stdin, stdout=stdout)
    assert [without_mount(key) for key in seen.keys] == [
        file_key(0, source, os.O_RDONLY, 4),
        file_key(1, target, os.O_WRONLY, 6),
    ]
    assert seen.descriptors == [0, 1, 2]
    assert target.read_bytes() == b"before"


def test_a_file_that_is_appended_to_stays_so(look: Look, tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as stdout:
        (key,) = look(stdout=stdout).keys
    assert key.flags == os.O_WRONLY | os.O_APPEND


@pytest.mark.parametrize(
    ("flags", "offset", "expected"),
    [
        pytest.param(os.O_RDONLY, 4, 4, id="read: where it was"),
        pytest.param(os.O_WRONLY, 4, 10, id="written: after what others wrote since"),
        pytest.param(os.O_WRONLY, 10, 10, id="written: where it was"),
    ],
)
def test_a_file_is_opened_again_for_a_job_that_comes_back(
    tmp_path: Path, flags: int, offset: int, expected: int
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    seen = streams_for([file_key(1, tmp_path / "file", flags, offset)])
    assert os.lseek(seen.descriptors[1], 0, os.SEEK_CUR) == expected
    assert (tmp_path / "file").read_bytes() == b"0123456789"
    os.close(seen.descriptors[1])


@pytest.mark.parametrize(
    ("flags", "offset", "expected"),
    [
        pytest.param(os.O_RDONLY, 4, 4, id="read: where the job was"),
        pytest.param(os.O_WRONLY, 4, 10, id="written: after what others wrote since"),
    ],
)
def test_a_file_that_is_handed_over_again_is_read_on_and_written_on(
    look: Look, tmp_path: Path, flags: int, offset: int, expected: int
) -> None:
    """As in `resume < data`, whose shell opened it at its beginning."""
    (tmp_path / "file").write_bytes(b"0123456789")
    descriptor = os.open(tmp_path / "file", flags)
    seen = look(stdin=descriptor, outer=[file_key(0, tmp_path / "file", flags, offset)])
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == expected
    assert seen.descriptors[0] == 0
    os.close(descriptor)


def test_a_file_that_was_written_in_its_midst_is_written_on_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    key = replace(file_key(1, tmp_path / "file", os.O_WRONLY, 4), at_end=False)
    seen = streams_for([key])
    assert os.lseek(seen.descriptors[1], 0, os.SEEK_CUR) == 4
    assert [key.at_end for key in seen.keys if key.stream == 1] == [False]
    os.close(seen.descriptors[1])


def test_a_file_of_two_descriptions_is_reached_through_a_relay_by_the_second(
    look: Look, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    with target.open("wb", buffering=0) as stdout, target.open("wb", buffering=0) as stderr:
        seen = look(stdout=stdout, stderr=stderr)
        assert os.get_blocking(stdout.fileno()) and os.get_blocking(stderr.fileno())
    assert [key.stream for key in seen.keys if key.path] == [1]
    assert [key.stream for key in seen.keys if key.key.startswith("pipe:")] == [2]
    assert seen.relays == 1


def test_a_file_of_one_description_is_one_on_both_streams(look: Look, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb", buffering=0) as both:
        seen = look(stdout=both, stderr=both)
    assert [key.stream for key in seen.keys] == [1, 2]
    assert seen.relays == 0
    again = look(outer=seen.keys)
    assert again.descriptors[1] == again.descriptors[2] > 2


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="gone"):
        streams_for([StreamKey(1, "file[1:2]", str(tmp_path / "gone"), os.O_WRONLY, 0)])


def test_a_file_that_is_now_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    with pytest.raises(NotFound):
        streams_for([StreamKey(1, "file[1:2]", str(tmp_path / "log"), os.O_WRONLY, 0)])


def test_nor_is_a_directory_that_is_now_a_link(tmp_path: Path) -> None:
    """Its owner moves her directory away and has the path lead to a file of root's."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("untouched")
    (tmp_path / "results").symlink_to(tmp_path / "etc")
    path = tmp_path / "results/passwd"
    with pytest.raises(NotFound):
        streams_for([StreamKey(1, "file[1:2]", str(path), os.O_WRONLY, 0)])


def test_what_is_now_no_file_is_not_taken_for_it(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        streams_for([StreamKey(0, "file[1:2]", str(tmp_path), os.O_RDONLY, 0)])


def test_a_pipe_stays_outside(look: Look) -> None:
    read_end, write_end = os.pipe()
    number = os.fstat(write_end).st_ino
    seen = look(stdout=write_end, stderr=write_end)
    os.close(read_end)
    os.close(write_end)
    assert seen.keys == [StreamKey(1, f"pipe:[{number}]"), StreamKey(2, f"pipe:[{number}]")]
    assert [entry["stream"] for entry in seen.reopen] == [0]
    assert seen.descriptors == [0, 1, 2]
    assert seen.relays == 0


def test_a_terminal_stays_outside(look: Look) -> None:
    control, terminal = os.openpty()
    status = os.fstat(terminal)
    key = f"tty[{status.st_rdev:x}:{status.st_dev:x}]"
    seen = look(stdin=terminal, stdout=terminal)
    os.close(control)
    os.close(terminal)
    assert seen.keys == [StreamKey(0, key), StreamKey(1, key)]
    assert seen.relays == 0


def test_a_socket_is_reached_through_relays(look: Look) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"through both")
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(10)
        seen = look(stdin=theirs, stdout=theirs)
        theirs.close()
        assert ours.recv(100) == b"through both"
        assert ours.recv(100) == b""
    assert seen.relays == 2
    assert [key.stream for key in seen.keys] == [0, 1]
    assert all(kind.startswith("pipe:") for kind in seen.kinds[:2])
    assert min(seen.descriptors[:2]) > 2


def test_a_file_without_a_name_is_reached_through_a_relay(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "gone"
    with path.open("w+b") as file:
        path.unlink()
        (tmp_path / "gone (deleted)").write_text("what /proc now seems to name")
        seen = look(stdout=file)
    assert seen.relays == 1
    assert [key.stream for key in seen.keys] == [1]


def test_a_named_pipe_is_reached_through_a_relay(look: Look, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    both = os.open(tmp_path / "fifo", os.O_RDWR)
    seen = look(stdout=both)
    os.close(both)
    assert seen.relays == 1
    assert seen.kinds[1].startswith("pipe:")


def test_a_job_that_comes_back_gets_a_pipe_where_it_had_one(look: Look, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        seen = look(outer=[StreamKey(1, "pipe:[1]")], stdout=file)
    assert seen.relays == 1
    assert seen.kinds[1].startswith("pipe:")
    assert seen.descriptors[0] == 0


def test_a_pipe_serves_as_it_is_when_a_job_comes_back(look: Look) -> None:
    read_end, write_end = os.pipe()
    seen = look(outer=[StreamKey(1, "pipe:[1]")], stdout=write_end)
    os.close(read_end)
    os.close(write_end)
    assert seen.relays == 0
    assert seen.descriptors == [0, 1, 2]


def test_a_job_that_runs_on_keeps_the_streams_that_it_has(tmp_path: Path) -> None:
    """The descriptions themselves: their offsets are those of PID 1."""
    read_end, write_end = os.pipe()
    with (tmp_path / "out").open("wb", buffering=0) as out:
        out.write(b"before")
        init = subprocess.Popen(["cat"], stdin=read_end, stdout=out, stderr=subprocess.DEVNULL)
        pidfd = os.pidfd_open(init.pid)
        try:
            held = streams_held_by(pidfd)
        finally:
            os.close(write_end)
            init.wait(20)
            os.close(pidfd)
            os.close(read_end)
        out.write(b", after")
    assert os.lseek(held.descriptors[1], 0, os.SEEK_CUR) == len("before, after")
    assert [key.stream for key in held.keys] == [0, 1]
    assert held.keys[0].key.startswith("pipe:[")
    assert (held.keys[1].path, held.keys[1].offset) == (str(tmp_path / "out"), 6)
    assert not any(os.get_inheritable(descriptor) for descriptor in held.descriptors)
    for descriptor in held.descriptors:
        os.close(descriptor)


def test_the_engines_name_for_an_object(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    assert external_key(read_end) == external_key(write_end)
    assert external_key(read_end) == os.readlink(f"/proc/self/fd/{read_end}")
    os.close(read_end)
    os.close(write_end)
    with (tmp_path / "file").open("wb") as file:
        key = external_key(file.fileno())
        assert key is not None and key.endswith(f":{os.fstat(file.fileno()).st_ino:x}]")
    null = os.open(os.devnull, os.O_RDWR)
    assert external_key(null) is None
    os.close(null)


@pytest.mark.parametrize(
    ("streams", "descriptors"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([(0, "a"), (2, "b")], {"a": 10, "b": 12}, id="two"),
        pytest.param([(1, "a"), (2, "a")], {"a": 11}, id="one pipe for two: the first counts"),
    ],
)
def test_where_an_engine_finds_the_outer_streams(
    streams: list[tuple[int, str]], descriptors: dict[str, int]
) -> None:
    assert inherited_streams(StreamKey(*stream) for stream in streams) == descriptors
