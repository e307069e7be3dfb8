"""The relay copies until either side ends."""

from __future__ import annotations

import os
import threading

import pytest

from outgrow.launcher.relay import relay


def drained(descriptor: int) -> bytes:
    data = b""
    while piece := os.read(descriptor, 1 << 16):
        data += piece
    return data


def test_all_that_is_written_arrives_in_order() -> None:
    source, write_end = os.pipe()
    read_end, target = os.pipe()
    data = bytes(range(256)) * 4096  # more than any pipe holds

    def write() -> None:
        with os.fdopen(write_end, "wb") as file:
            file.write(data)

    def copy() -> None:
        relay(source, target)
        os.close(target)

    threads = [threading.Thread(target=write), threading.Thread(target=copy)]
    for thread in threads:
        thread.start()
    assert drained(read_end) == data
    for thread in threads:
        thread.join()
    os.close(source)
    os.close(read_end)


def test_it_ends_when_nobody_reads() -> None:
    source, write_end = os.pipe()
    read_end, target = os.pipe()
    os.write(write_end, b"for nobody")
    os.close(read_end)
    relay(source, target)  # returns, although its source has not ended
    for descriptor in (source, write_end, target):
        os.close(descriptor)


def test_a_write_that_takes_only_a_part_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    source, write_end = os.pipe()
    read_end, target = os.pipe()
    os.write(write_end, bytes(range(200)))
    os.close(write_end)
    really = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: really(descriptor, data[:7]))
    relay(source, target)
    monkeypatch.undo()
    os.close(target)
    assert drained(read_end) == bytes(range(200))
    os.close(source)
    os.close(read_end)
