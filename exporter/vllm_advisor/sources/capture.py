"""Recorded pages: JSON lines, optionally gzipped (design page, "Commands")."""

from __future__ import annotations

import gzip
import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from vllm_advisor.errors import InputError

__all__ = ["CapturedPage", "read_captures"]

_UNNAMED_TARGET = "capture"


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
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _page(line, path, number)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", path=path) from error


def _page(line: bytes, path: Path, number: int) -> CapturedPage:
    try:
        record = json.loads(line)
        return CapturedPage(
            float(record["ts"]), str(record.get("target", _UNNAMED_TARGET)), record["text"].encode()
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        expected = 'expected {"ts": <Unix seconds>, "target": "<url>", "text": "<page>"}'
        raise InputError(expected, path=path, line=number) from error
