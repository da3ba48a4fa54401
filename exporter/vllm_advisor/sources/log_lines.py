"""Lines of a log file or of a folder of rotated ones, whatever wraps them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from vllm_advisor.errors import InputError

__all__ = ["log_lines"]

_LIMIT_CHARACTERS = 1_000_000
_CRI = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) ([PF]) (.*)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def log_lines(path: Path) -> Iterator[str]:
    """Return a log's lines without what Docker or Kubernetes put around them.

    Args:
        path: a file, gzipped or not, or a folder of rotated ones, read from the oldest on.

    Raises:
        InputError: it cannot be read.
    """
    for file in _files(path):
        try:
            with _open(file) as lines:
                yield from _unwrapped(lines)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=file) from error
        except EOFError as error:
            raise InputError("is cut off inside its compression", path=file) from error


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        files = [(file.stat().st_mtime, file.name, file) for file in path.iterdir() if file.is_file()]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    if not files:
        raise InputError("holds no log file", path=path)
    return [file for _, _, file in sorted(files)]


def _open(file: Path) -> IO[str]:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8", errors="replace")
    return file.open(encoding="utf-8", errors="replace")


def _unwrapped(lines: IO[str]) -> Iterator[str]:
    started = ""
    for line in _bounded(lines):
        text = line.rstrip("\n")
        if match := _CRI.match(text):
            kind, part = match.groups()
            started = (started + part)[:_LIMIT_CHARACTERS]
            if kind == "P":
                continue
            text, started = started, ""
        elif text.startswith('{"log":'):
            text = _docker(text)
        yield _COLOUR.sub("", text) if "\x1b" in text else text


def _bounded(lines: IO[str]) -> Iterable[str]:
    """Cut lines of absurd length instead of holding them."""
    return iter(lambda: lines.readline(_LIMIT_CHARACTERS), "")


def _docker(text: str) -> str:
    try:
        line = json.loads(text).get("log")
    except ValueError:
        return text
    return line.rstrip("\n") if isinstance(line, str) else ""
