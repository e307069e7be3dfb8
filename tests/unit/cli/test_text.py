"""How verbs print."""

from __future__ import annotations

import json
import shlex
import time
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outgrow.cli.text import (
    limit_bytes,
    local_time,
    rfc3339,
    shell_words,
    size_or_none,
    table,
    write_json,
)
from outgrow.core.sizing import NO_LIMIT
from outgrow.core.units import GIB


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000Z"),
        (1764533222.123, "2025-11-30T20:07:02.123Z"),
        (1764533222.9999, "2025-11-30T20:07:02.999Z"),
    ],
)
def test_a_time_for_programs_is_in_utc(
    at: float | None, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert rfc3339(at) == text
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.floats(0, 4e9))
def test_a_time_for_programs_is_read_back(at: float) -> None:
    text = rfc3339(at)
    assert text is not None
    assert abs(datetime.fromisoformat(text).timestamp() - at) < 0.001


def test_a_time_for_people_is_in_their_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert local_time(1764533222.9) == "2025-11-30 22:07:02"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local_time(None) == "-"


@pytest.mark.parametrize(
    ("limit", "known", "text"),
    [
        (None, None, "none"),
        (NO_LIMIT, None, "none"),
        (NO_LIMIT + 4096, None, "none"),
        (GIB, GIB, "1 GiB"),
    ],
)
def test_no_limit_is_no_number(limit: int | None, known: int | None, text: str) -> None:
    assert limit_bytes(limit) == known
    assert size_or_none(limit) == text


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param(["echo", "hello"], "echo hello", id="plain"),
        pytest.param(["echo", "two words"], "echo 'two words'", id="a space"),
        pytest.param(["echo", "it's"], "echo 'it'\"'\"'s'", id="a quote"),
        pytest.param(["echo", ""], "echo ''", id="empty"),
        pytest.param(["echo", "\x1b[2J"], "echo '?[2J'", id="a terminal's escape"),
        pytest.param(["echo", "a\nb"], "echo 'a?b'", id="a newline"),
        pytest.param(["echo", "\udcff"], "echo '?'", id="undecodable"),
        pytest.param(["echo", "数据"], "echo '数据'", id="other languages"),
    ],
)
def test_a_command_can_be_typed_and_obeys_nobody(command: list[str], line: str) -> None:
    assert shell_words(command) == line


@given(st.lists(st.text(), min_size=1))
def test_a_command_line_can_always_be_printed(command: list[str]) -> None:
    line = shell_words(command)
    assert line.isprintable()
    line.encode()
    if all(word.isprintable() for word in command):
        assert shlex.split(line) == command


def test_a_table_is_as_wide_as_it_needs_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    table(("ID", "NAME"), [("abcdefgh", "x"), ("b", "a long name")])
    assert capsys.readouterr().out == "ID        NAME\nabcdefgh  x\nb         a long name\n"


def test_an_empty_table_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    table(("ID", "NAME"), [])
    assert capsys.readouterr().out == "ID  NAME\n"


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_json_is_one_document_of_plain_ascii(
    capsys: pytest.CaptureFixture[str], data: object
) -> None:
    write_json({"schema": 1, "data": data})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"schema": 1, "data": data}
