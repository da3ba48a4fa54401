"""What flags' values may be, for argparse: each is read, or refused with what was expected."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import TypeVar

from vllm_advisor.ceilings.engine_flags import DTYPE_BYTES
from vllm_advisor.ceilings.engine_version import parse_version
from vllm_advisor.units import parse_size_bytes

__all__ = ["count", "dtype", "length", "margin", "positive", "ratio", "size", "size_or_bytes", "version"]

Parsed = TypeVar("Parsed")
_LENGTH_UNITS = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
_LENGTH = re.compile(r"(\d{1,12}(?:\.\d+)?)([kKmM]?)", re.ASCII)
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)
_LARGEST_MARGIN_RATIO = 10
_LARGEST = 10**15
"""Of parameters or bytes; what is larger is a slip."""


def count(text: str) -> int:
    """Read a whole number over zero."""
    if not _WHOLE.fullmatch(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number over zero, not {text!r}")
    return int(text)


def positive(text: str) -> float:
    """Read a number over zero."""
    value = _number(text)
    if not 0 < value <= _LARGEST:
        raise argparse.ArgumentTypeError(f"expected a number over zero, not {text!r}")
    return value


def ratio(text: str) -> float:
    """Read a share of a whole."""
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share over 0 and at most 1, not {text!r}")
    return value


def margin(text: str) -> float:
    """Read what is added on top, as a ratio."""
    value = _number(text)
    if not 0 <= value <= _LARGEST_MARGIN_RATIO:
        raise argparse.ArgumentTypeError(
            f"expected a number from 0 to {_LARGEST_MARGIN_RATIO}, such as 0.25, not {text!r}"
        )
    return value


def length(text: str) -> int:
    """Read a length as vLLM does: ``32k`` is 32,000, ``32K`` 32,768; ``auto`` gives -1."""
    if text in {"auto", "-1"}:
        return -1
    match = _LENGTH.fullmatch(text)
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"expected tokens such as 32768, 32k or auto, not {text!r}")
    return int(float(match[1]) * _LENGTH_UNITS[match[2]])


def dtype(text: str) -> str:
    """Read the name of a data type, or ``auto``."""
    if text == "auto" or text in DTYPE_BYTES:
        return text
    known = ", ".join(DTYPE_BYTES)
    raise argparse.ArgumentTypeError(f"{text} is not known; expected auto or one of {known}")


def size(text: str) -> int:
    """Read a size with its unit, in bytes."""
    size_bytes = _checked(parse_size_bytes, text)
    if not 0 < size_bytes <= _LARGEST:
        raise argparse.ArgumentTypeError(f"expected a size such as 80GB, over 0 to 1000TB, not {text!r}")
    return size_bytes


def size_or_bytes(text: str) -> int:
    """Read a size with its unit, or a bare number of bytes."""
    return int(text) if _WHOLE.fullmatch(text) else size(text)


def version(text: str) -> tuple[int, ...]:
    """Read a vLLM version."""
    return _checked(parse_version, text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _checked(parse: Callable[[str], Parsed], text: str) -> Parsed:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
