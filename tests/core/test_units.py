"""Durations and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.units import format_bytes, format_duration, parse_duration_seconds, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("40ms", 0.04),
        ("5s", 5),
        ("1h30m", 5400),
        ("7d", 604800),
        ("1.5s", 1.5),
        ("1w", 604800),
        ("100ms", 0.1),
    ],
)
def test_duration_is_read(text: str, seconds: float) -> None:
    """Prometheus' durations, fractions allowed."""
    assert parse_duration_seconds(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "5", "5 s", "s", "-5s", "5sec", "1h 30m", "5s!"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    """A duration without its unit, or with anything else in it, is refused."""
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration_seconds(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("80GB", 80_000_000_000),
        ("79.1GiB", 84_932_978_278),
        ("17.5GB", 17_500_000_000),
        ("512MiB", 536_870_912),
        ("1024B", 1024),
        ("48.1 GB", 48_100_000_000),
    ],
)
def test_size_is_read(text: str, size_bytes: int) -> None:
    """Decimal and binary units differ, and no byte is lost to floating point."""
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "80", "80G", "80gb", "GB", "-1GB", "80GiBs"])
def test_text_that_is_no_size_is_refused(text: str) -> None:
    """A size without its unit, or in a unit that leaves decimal or binary open, is refused."""
    with pytest.raises(ValueError, match="expected a size"):
        parse_size_bytes(text)


@given(st.integers(min_value=1, max_value=10**9))
def test_written_duration_is_read_back(milliseconds: int) -> None:
    """What is written of a duration is what it is, to the digits written."""
    seconds = milliseconds / 1000

    assert parse_duration_seconds(format_duration(seconds)) == pytest.approx(seconds, rel=1e-5)


def test_bytes_are_written_in_decimal_gigabytes() -> None:
    """As the worked example of the design page writes them."""
    assert format_bytes(48_100_000_000) == "48.1 GB"
