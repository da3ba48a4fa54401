"""Bytes of a log file at an offset, whether it is plain or compressed."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path
from typing import Protocol

import zstandard

from vllm_advisor.sources.access_logs.files import PACKED_SUFFIXES

__all__ = ["LogSource", "open_source"]

_SKIPPED_AT_ONCE = 1 << 20
_START_BYTES = 1024
"""Kept of a compressed file, whose start is looked at again and again."""


class LogSource(Protocol):
    """A file that is read at offsets of what it holds; the same one whatever becomes of its name."""

    path: Path
    is_packed: bool

    def stat(self) -> os.stat_result:
        """Return what the system says of the file that is open."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to so many bytes; fewer where the file ends, for now."""

    def close(self) -> None:
        """Give the file back."""


class _PlainSource:
    is_packed = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def stat(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)


class _PackedSource:
    """A compressed file, read onwards from its start; one that is cut short ends where it is cut."""

    is_packed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb")
        self._unpacked: io.BufferedIOBase | None = None
        self._offset = 0
        self._start = b""

    def stat(self) -> os.stat_result:
        return os.fstat(self._file.fileno())

    def read(self, offset: int, size: int) -> bytes:
        if offset + size <= len(self._start):
            return self._start[offset : offset + size]
        if self._unpacked is None or offset < self._offset:
            self._file.seek(0)
            self._unpacked, self._offset = _unpacked(self._file, self.path.suffix), 0
        while self._offset < offset and self._take(min(offset - self._offset, _SKIPPED_AT_ONCE)):
            pass
        taken = self._take(size) if self._offset == offset else b""
        if offset == 0 and len(taken) == size <= _START_BYTES:
            self._start = taken
        return taken

    def close(self) -> None:
        self._unpacked = None
        self._file.close()

    def _take(self, size: int) -> bytes:
        try:
            taken = self._unpacked.read(size) if self._unpacked else b""
        except (EOFError, OSError, zlib.error, zstandard.ZstdError):
            self._unpacked = None
            return b""
        self._offset += len(taken)
        return taken


def _unpacked(file: io.BufferedReader, suffix: str) -> io.BufferedIOBase:
    """Return what a file holds from its start; the file itself stays open."""
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=file)
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
    return io.BufferedReader(reader)


def open_source(path: Path) -> LogSource:
    """Open a file by its name: .gz, .zst or plain.

    Raises:
        OSError: the file cannot be opened.
    """
    return _PackedSource(path) if path.suffix in PACKED_SUFFIXES else _PlainSource(path)
