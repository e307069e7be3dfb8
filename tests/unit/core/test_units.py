"""Sizes and durations: what people write is read back, and what they did not mean is refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outgrow.core.errors import Usage
from outgrow.core.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_option,
    format_seconds,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("1B", 1, id="bytes"),
        pytest.param("4K", 4 * KIB, id="K as in Slurm"),
        pytest.param("4KiB", 4 * KIB, id="KiB"),
        pytest.param("512MiB", 512 * MIB, id="MiB"),
        pytest.param("512M", 512 * MIB, id="M as in Slurm"),
        pytest.param("512m", 512 * MIB, id="lower case"),
        pytest.param("512mib", 512 * MIB, id="lower case MiB"),
        pytest.param("4G", 4 * GIB, id="G as in Slurm"),
        pytest.param("1.5G", 3 * GIB // 2, id="a fraction"),
        pytest.param("0.5KiB", 512, id="a fraction below one"),
        pytest.param("0.1KiB", 102, id="a fraction that is no whole number of bytes"),
        pytest.param("1TiB", TIB, id="TiB"),
        pytest.param("1024TiB", 1024 * TIB, id="the largest"),
        pytest.param("  2 GiB ", 2 * GIB, id="spaces"),
        pytest.param("007G", 7 * GIB, id="leading zeros"),
    ],
)
def test_a_size_with_a_unit_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("512", "did you mean 512MiB (what Slurm would read)?", id="bare"),
        pytest.param("1.5", "did you mean 1.5MiB (what Slurm would read)?", id="bare fraction"),
        pytest.param("0", "did you mean 0MiB", id="bare zero"),
        pytest.param("4GB", "did you mean 4GiB?", id="GB"),
        pytest.param("4gb", "did you mean 4GiB?", id="gb"),
        pytest.param("4KB", "did you mean 4KiB?", id="KB"),
        pytest.param("4 MB", "did you mean 4MiB?", id="MB with a space"),
        pytest.param("1.5TB", "did you mean 1.5TiB?", id="TB"),
        pytest.param("4Q", "use KiB, MiB, GiB or TiB", id="unknown unit"),
        pytest.param("4PiB", "use KiB, MiB, GiB or TiB", id="PiB"),
        pytest.param("4GiBs", "use KiB, MiB, GiB or TiB", id="a unit with more"),
        pytest.param("0G", "give a size above zero", id="zero"),
        pytest.param("0.0001B", "give a size above zero", id="less than a byte"),
        pytest.param("1025TiB", "check the number and the unit", id="over a PiB"),
        pytest.param("9" * 400 + "G", "check the number and the unit", id="400 digits"),
        pytest.param("", "512MiB", id="empty"),
        pytest.param("   ", "512MiB", id="blank"),
        pytest.param("-4G", "512MiB", id="negative"),
        pytest.param("+4G", "512MiB", id="a sign"),
        pytest.param("G", "512MiB", id="no number"),
        pytest.param("4G 5M", "512MiB", id="two sizes"),
        pytest.param("1e3G", "512MiB", id="an exponent"),
        pytest.param("0x10G", "512MiB", id="hexadecimal"),
        pytest.param("1,5G", "512MiB", id="a decimal comma"),
        pytest.param(".5G", "512MiB", id="no digit before the point"),
        pytest.param("5.G", "512MiB", id="no digit after the point"),
        pytest.param("infG", "512MiB", id="infinity"),
        pytest.param("٤G", "512MiB", id="digits of another script"),
        pytest.param("4\nG\x00", "512MiB", id="control characters"),
        pytest.param("4\udcffG", "512MiB", id="undecodable"),
    ],
)
def test_a_refused_size_names_the_reading_that_was_probably_meant(text: str, says: str) -> None:
    with pytest.raises(Usage) as error:
        parse_size(text)
    assert says in error.value.remedy
    assert error.value.exit_status == 2


@pytest.mark.parametrize("text", ["9" * 5000 + "G", "1." + "9" * 5000 + "G"])
def test_an_absurdly_long_size_is_refused_like_any_other(text: str) -> None:
    with pytest.raises(Usage):
        parse_size(text)


@given(st.text())
@example("1²G")
def test_any_text_is_a_size_or_a_usage_error(text: str) -> None:
    try:
        size = parse_size(text)
    except Usage as error:
        assert error.remedy
    else:
        assert 0 < size <= 1024 * TIB


@given(st.integers(1, 1024 * TIB))
def test_an_option_is_read_back_exactly(size: int) -> None:
    assert parse_size(format_option(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (KIB, "1KiB"),
        (384 * MIB, "384MiB"),
        (384 * MIB + 1, f"{384 * MIB + 1}B"),
        (3 * GIB, "3GiB"),
        (TIB, "1TiB"),
        (1536 * MIB, "1536MiB"),
    ],
)
def test_an_option_uses_the_largest_unit_that_fits_whole(size: int, text: str) -> None:
    assert format_option(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(0, "0 B", id="nothing"),
        pytest.param(1, "1 B", id="a byte"),
        pytest.param(1023, "1023 B", id="below a unit"),
        pytest.param(KIB, "1 KiB", id="a unit"),
        pytest.param(384 * MIB, "384 MiB", id="whole"),
        pytest.param(3 * GIB // 2, "1.5 GiB", id="a tenth"),
        pytest.param(GIB - 1, "1023.9 MiB", id="never rounded up to the next unit"),
        pytest.param(2 * GIB - 1, "1.9 GiB", id="never rounded up"),
        pytest.param(5000 * TIB, "5000 TiB", id="larger than the largest unit"),
        pytest.param(-3 * GIB // 2, "-1.5 GiB", id="negative"),
    ],
)
def test_a_size_for_people(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(1, 1024 * TIB))
def test_a_size_for_people_is_true_to_a_tenth_and_never_more(size: int) -> None:
    number, unit = format_size(size).split()
    shown = parse_size(number + unit)
    assert shown <= size
    assert size - shown <= max(size // 10, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("0s", 0.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("2d", 172800.0),
        ("1.5h", 5400.0),
        ("1m500ms", 60.5),
        (" 5s\n", 5.0),
    ],
)
def test_a_duration_with_units_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("30", id="bare"),
        pytest.param("s", id="no number"),
        pytest.param("-1s", id="negative"),
        pytest.param("1 h", id="a space"),
        pytest.param("1h 30m", id="a space between parts"),
        pytest.param("1y", id="unknown unit"),
        pytest.param("1hour", id="a word"),
        pytest.param("1h30", id="a part without a unit"),
        pytest.param("1e3s", id="an exponent"),
        pytest.param("infs", id="infinity"),
        pytest.param("nans", id="not a number"),
        pytest.param("5S", id="upper case"),
        pytest.param("٣s", id="digits of another script"),
        pytest.param("1..5s", id="two points"),
        pytest.param("1\udcffs", id="undecodable"),
    ],
)
def test_a_refused_duration_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(Usage) as error:
        parse_duration(text)
    assert "1h30m" in error.value.remedy


@given(st.text(alphabet="0123456789.msh d"))
def test_any_text_is_a_duration_or_a_usage_error(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except Usage as error:
        assert error.remedy
    else:
        assert seconds >= 0


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_the_parts_of_a_duration_add_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    text = f"{days}d{hours}h{minutes}m{seconds}s"
    assert parse_duration(text) == ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0001, "0 ms"),
        (0.0874, "87 ms"),
        (0.9997, "1.0 s"),
        (1, "1.0 s"),
        (1.94, "1.9 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min 0 s"),
        (60, "1 min 0 s"),
        (200.4, "3 min 20 s"),
        (3599.4, "59 min 59 s"),
        (3599.7, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (100 * 3600, "100 h 0 min"),
    ],
)
def test_a_duration_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(1, 1e7))
def test_a_duration_for_people_is_true_to_its_last_figure(seconds: float) -> None:
    shown = parse_duration(format_seconds(seconds).replace(" ", "").replace("min", "m"))
    assert abs(shown - seconds) <= (0.051 if seconds < 60 else 0.5 if seconds < 3599 else 60)
