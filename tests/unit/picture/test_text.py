"""Text of others made fit to draw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.picture.text import ascii_only, columns, cut, plain, wrapped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("train.py", "train.py", id="as it is"),
        pytest.param("  two \n\t lines\r\n", "two lines", id="white space"),
        pytest.param("\x1b[31mred\x1b[0m", "[31mred[0m", id="ANSI"),
        pytest.param("a\x00b\x7fc\x9bd", "abcd", id="control characters"),
        pytest.param("a\u202eb\u200dc", "abc", id="direction and joiners"),
        pytest.param("a\ud800b\ufffec", "abc", id="surrogates and non-characters"),
        pytest.param("Übung 数据 🚀", "Übung 数据 🚀", id="other languages"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("abc", 3), ("é", 1), ("e\u0301", 1), ("数据", 4), ("🚀", 2)]
)
def test_columns(text: str, expected: int) -> None:
    assert columns(text) == expected


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abc def", 5, "abc…"),
        ("数据数据", 5, "数据…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("abcdef", -1, ""),
    ],
)
def test_cut(text: str, most: int, expected: str) -> None:
    assert cut(text, most) == expected


def test_cut_has_no_room_for_a_wide_ellipsis() -> None:
    assert cut("abcdef", 2, "...") == "ab"


def test_wrapped_cuts_only_its_last_line() -> None:
    assert wrapped("one two three four", 7, 9) == ["one two", "three", "four"]
    assert wrapped("one two three four five", 7, 2) == ["one two", "three…"]
    assert wrapped("one", 0, 2) == []


@given(st.text(), st.integers(-2, 30))
def test_nothing_becomes_wider_than_asked(text: str, most: int) -> None:
    assert columns(cut(plain(text), most)) <= max(most, 0)
    assert all(columns(line) <= most for line in wrapped(plain(text), most, 3))


@given(st.text())
def test_plain_text_is_one_clean_line(text: str) -> None:
    line = plain(text)
    assert line == plain(line)
    assert line.isprintable() or any(ch != " " and ch.isspace() for ch in line)
    assert ascii_only(line).isascii()
