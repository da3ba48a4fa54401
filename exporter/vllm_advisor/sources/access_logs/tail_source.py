"""Bytes of a log file at an offset, whether it is plain or compressed."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import Protocol

import zstandard

from vllm_advisor.sources.access_logs.files import PACKED_SUFFIXES, open_log

__all__ = ["LogSource", "open_source"]

_SKIPPED_AT_ONCE = 1 << 20


class LogSource(Protocol):
    """A file that is read at offsets of what it holds."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to so many bytes; fewer where the file ends, for now."""

    def close(self) -> None:
        """Give the file back."""


class _PlainSource:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)


class _PackedSource:
    """A compressed file, read onwards from its start; one that is cut short ends where it is cut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.BufferedIOBase | None = None
        self._offset = 0

    def read(self, offset: int, size: int) -> bytes:
        if self._file is None or offset < self._offset:
            self.close()
            self._file, self._offset = open_log(self._path), 0
        while self._offset < offset and self._take(min(offset - self._offset, _SKIPPED_AT_ONCE)):
            pass
        return self._take(size) if self._offset == offset else b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _take(self, size: int) -> bytes:
        try:
            taken = self._file.read(size) if self._file else b""
        except (EOFError, OSError, zlib.error, zstandard.ZstdError):
            self.close()
            return b""
        self._offset += len(taken)
        return taken


def open_source(path: Path) -> LogSource:
    """Open a file by its name: .gz, .zst or plain.

    Raises:
        OSError: the file cannot be opened.
    """
    return _PackedSource(path) if path.suffix in PACKED_SUFFIXES else _PlainSource(path)
