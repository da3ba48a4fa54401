"""Values as logs write them: numbers as text, dashes for nothing, times in a dozen shapes."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

__all__ = [
    "LONGEST_TOKENS",
    "MISSING",
    "SECONDS_A_UNIT",
    "BrokenLineError",
    "epoch_seconds",
    "is_true",
    "read_tokens",
    "status_failed",
]


class BrokenLineError(ValueError):
    """A line is cut or garbled, or says what cannot be."""


class _Missing:
    """Stands for a field that a record does not have, where None is one that it has empty."""

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()

LONGEST_TOKENS = 100_000_000
"""More are not a request's, but some counter gone wrong."""
_NOTHING = frozenset({"", "-", "null", "None", "undefined"})
SECONDS_A_UNIT = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""Numbers over the left one are epoch times in units of the right one; smaller ones are seconds."""
_NGINX_TIME = re.compile(r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}")
_LONG_TIME = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d) GMT([+-]\d{4})")
_FAILURES = frozenset({"failure", "failed", "error", "false", "timeout"})


def read_tokens(value: object) -> int | None:
    """Read a token count; None where there is none.

    Raises:
        BrokenLineError: the value is no count of tokens: negative, huge, not whole, not a number.
    """
    if value is None or value is MISSING or (isinstance(value, str) and value in _NOTHING):
        return None
    number = value
    if isinstance(value, str):
        try:
            number = int(value) if value.isdecimal() and len(value) < 20 else float(value)
        except ValueError:
            raise BrokenLineError("not a number") from None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BrokenLineError("not a number")
    if not 0 <= number <= LONGEST_TOKENS or number != int(number):
        raise BrokenLineError("no count of tokens")
    return int(number)


def epoch_seconds(value: object) -> float | None:
    """Read a time; without a zone it is UTC. None where the value is no time."""
    if isinstance(value, str):
        return _seconds_of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _scaled(float(value)) if abs(value) < 1e20 else None


def _scaled(number: float) -> float | None:
    if not math.isfinite(number) or number < 0:
        return None
    return number * next((unit for over, unit in SECONDS_A_UNIT if number > over), 1.0)


def _seconds_of_text(text: str) -> float | None:
    try:
        return _scaled(float(text))  # first, since ISO 8601 without separators takes some numbers for dates
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _seconds_of_other_text(text)
    return _timestamp(time if time.tzinfo else time.replace(tzinfo=UTC))


def _seconds_of_other_text(text: str) -> float | None:
    try:
        if _NGINX_TIME.fullmatch(text):
            return _timestamp(datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z"))
        if long := _LONG_TIME.match(text):
            return _timestamp(datetime.strptime(f"{long[1]} {long[2]}", "%b %d %Y %H:%M:%S %z"))
    except ValueError:
        pass
    return None


def _timestamp(time: datetime) -> float | None:
    try:
        seconds = time.timestamp()
    except (OverflowError, ValueError):
        return None
    return seconds if seconds >= 0 else None


def is_true(value: object) -> bool:
    """Tell whether a flag is set, be it written as text."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def status_failed(value: object) -> bool | None:
    """Tell whether a status is a failure's: code 0 or from 400, or a word; None where it is none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        if not value.isdecimal():
            return None if value in _NOTHING else value.lower() in _FAILURES
        value = int(value[:9])
    return value == 0 or value >= 400 if isinstance(value, int | float) else None
