"""Recorded pages: JSON lines, optionally gzipped (design page, "Commands")."""

from __future__ import annotations

import gzip
import heapq
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import BufferedReader
from operator import attrgetter
from pathlib import Path

from vllm_advisor.errors import InputError

__all__ = ["CapturedPage", "read_captures"]

_UNNAMED_TARGET = "capture"
_GZIP = b"\x1f\x8b"
_LATEST_SECONDS = 1e11
"""In the year 5138; more is not in seconds."""


@dataclass(frozen=True, slots=True)
class CapturedPage:
    """A page as it was at a time.

    Args:
        time_seconds: Unix time of the scrape.
        target: whose page it is, as written in the capture.
        text: the page.
    """

    time_seconds: float
    target: str
    text: bytes


def read_captures(paths: Sequence[Path]) -> Iterator[CapturedPage]:
    """Read captures in the order of their times, each file being in order itself.

    Raises:
        InputError: a file cannot be read, or a line is not a captured page.
    """
    return heapq.merge(*map(_read, paths), key=attrgetter("time_seconds"))


def _read(path: Path) -> Iterator[CapturedPage]:
    try:
        with _opened(path) as file, _unpacked(file) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _page(line, path, number)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", path=path) from error


def _opened(path: Path) -> BufferedReader:
    """Open a file; ``-`` is standard input."""
    return os.fdopen(os.dup(0), "rb") if str(path) == "-" else path.open("rb")


def _unpacked(file: BufferedReader) -> AbstractContextManager[Iterable[bytes]]:
    """Return its lines, unpacked if it begins as gzip does, whatever its name."""
    return gzip.open(file) if file.peek(len(_GZIP)).startswith(_GZIP) else nullcontext(file)


def _page(line: bytes, path: Path, number: int) -> CapturedPage:
    try:
        record = json.loads(line)
        target, text = str(record.get("target", _UNNAMED_TARGET)), record["text"].encode()
        return CapturedPage(_seconds(record["ts"]), target, text)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        expected = 'expected {"ts": <Unix seconds>, "target": "<url>", "text": "<page>"}'
        raise InputError(expected, path=path, line=number) from error


def _seconds(value: object) -> float:
    """Read a time, which is a number that a clock can show."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST_SECONDS:
        raise ValueError("no time")
    return float(value)
