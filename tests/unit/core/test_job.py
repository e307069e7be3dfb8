"""What a job may be called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.core.errors import Usage
from outgrow.core.job import ID_ALPHABET, ID_LENGTH, check_name, is_job_id, parse_label


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        pytest.param("abcdefgh", True, id="letters"),
        pytest.param("23456789", True, id="digits"),
        pytest.param("abcdefg", False, id="too short"),
        pytest.param("abcdefghj", False, id="too long"),
        pytest.param("abcdefgi", False, id="a letter that looks like a digit"),
        pytest.param("abcdefg1", False, id="a digit that looks like a letter"),
        pytest.param("ABCDEFGH", False, id="upper case"),
        pytest.param("abcdefgh\n", False, id="a newline after it"),
        pytest.param("../../ab", False, id="a path"),
        pytest.param("abc/defg", False, id="a slash"),
        pytest.param("abcd\x00efg", False, id="a NUL"),
        pytest.param("äbcdefgh", False, id="not ASCII"),
        pytest.param("", False, id="empty"),
    ],
)
def test_a_job_id(text: str, valid: bool) -> None:
    assert is_job_id(text) is valid


@given(st.text(ID_ALPHABET, min_size=ID_LENGTH, max_size=ID_LENGTH))
def test_every_id_that_is_drawn_is_one(text: str) -> None:
    assert is_job_id(text)


@given(st.text())
def test_no_id_can_leave_its_directory(text: str) -> None:
    if is_job_id(text):
        assert not set(text) & set("/.\x00\n ")


def test_the_alphabet_can_be_read_aloud() -> None:
    assert not set(ID_ALPHABET) & set("ilo01ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert len(set(ID_ALPHABET)) == len(ID_ALPHABET)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("grower", id="a word"),
        pytest.param("two words", id="a space"),
        pytest.param('it\'s "quoted"', id="quotes"),
        pytest.param("Übung 数据 🚀", id="other languages"),
        pytest.param("a" * 200, id="the longest"),
        pytest.param("-v", id="like an option"),
        pytest.param("../x", id="like a path"),
        pytest.param("last one", id="beginning with last"),
        pytest.param("%_'; DROP TABLE jobs", id="like SQL"),
    ],
)
def test_a_name_may_be_any_line_that_can_be_shown(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("", "1 to 200 characters", id="empty"),
        pytest.param("a" * 201, "1 to 200 characters", id="too long"),
        pytest.param("a\nb", "cannot be printed", id="a newline"),
        pytest.param("a\tb", "cannot be printed", id="a tab"),
        pytest.param("\x1b[31mred", "cannot be printed", id="a terminal's escape"),
        pytest.param("a\x00b", "cannot be printed", id="a NUL"),
        pytest.param("\udcff", "cannot be printed", id="undecodable"),
        pytest.param("a\u202eb", "cannot be printed", id="a change of direction"),
        pytest.param("last", "always means the newest job", id="last"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(name: str, says: str) -> None:
    with pytest.raises(Usage) as error:
        check_name(name)
    assert says in error.value.message
    assert error.value.message.isprintable()
    assert error.value.remedy


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("project=covid", ("project", "covid")),
        ("a=", ("a", "")),
        ("a=b=c", ("a", "b=c")),
        ("example.org/team_x-1=two words", ("example.org/team_x-1", "two words")),
        ("k" * 63 + "=" + "v" * 1000, ("k" * 63, "v" * 1000)),
        ("k=Übung", ("k", "Übung")),
    ],
)
def test_a_label_is_key_and_value(text: str, label: tuple[str, str]) -> None:
    assert parse_label(text) == label


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("project", "is not KEY=VALUE", id="no equals sign"),
        pytest.param("=value", "is not KEY=VALUE", id="no key"),
        pytest.param("two words=x", "is not KEY=VALUE", id="a space in the key"),
        pytest.param("kéy=x", "is not KEY=VALUE", id="a letter that is not ASCII in the key"),
        pytest.param("key\n=x", "is not KEY=VALUE", id="a newline after the key"),
        pytest.param("k" * 64 + "=x", "is not KEY=VALUE", id="a long key"),
        pytest.param("", "is not KEY=VALUE", id="empty"),
        pytest.param("k=a\nb", "cannot be shown", id="a newline in the value"),
        pytest.param("k=\udcff", "cannot be shown", id="an undecodable value"),
        pytest.param("k=" + "v" * 1001, "cannot be shown", id="a long value"),
    ],
)
def test_a_label_that_cannot_be_shown_is_refused(text: str, says: str) -> None:
    with pytest.raises(Usage) as error:
        parse_label(text)
    assert says in error.value.message
    assert error.value.message.isprintable()
    assert error.value.remedy
