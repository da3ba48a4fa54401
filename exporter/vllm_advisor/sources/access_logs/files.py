"""Whole files: plain, .gz, .zst or Parquet, with lines of any length."""

from __future__ import annotations

import glob
import gzip
import io
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.errors import InputError
from vllm_advisor.sources.access_logs.parquet import parquet_blocks
from vllm_advisor.sources.access_logs.reader import LINE_LIMIT_BYTES, LineReader
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.sources.access_logs.request import Logged, LoggedRequest

__all__ = ["PACKED_SUFFIXES", "find_files", "open_log", "read_file", "read_requests"]


PACKED_SUFFIXES = frozenset({".gz", ".zst"})


def find_files(paths: tuple[str, ...]) -> list[Path]:
    """Return the files that some globs match, oldest change first."""
    found: set[Path] = set()
    for pattern in paths:
        names = glob.iglob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        found.update(map(Path, names))
    return sorted((path for path in found if path.is_file()), key=lambda path: (path.stat().st_mtime, path))


def open_log(path: Path) -> BinaryIO:
    """Open a file for reading what it holds, decompressed by its name: .gz, .zst or neither."""
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path))
    file = path.open("rb")
    if path.suffix == ".zst":
        unpacked = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return cast(BinaryIO, io.BufferedReader(unpacked))
    return file


def read_file(path: Path, reader: LineReader) -> Iterator[Logged]:
    """Read a whole file.

    Raises:
        InputError: the file cannot be read, or not to its end.
    """
    now_seconds = time.time()
    for block in _blocks(path, reader):
        yield from reader.read_block(block, 0, now_seconds)
    reader.finish()


def read_requests(log: AccessLogConfig) -> Iterator[LoggedRequest]:
    """Read every file of some access logs as they are now, request by request.

    Raises:
        InputError: a file cannot be read.
    """
    recent, now_seconds = Recent(REMEMBERED), time.time()
    for path in find_files(log.paths):
        reader = LineReader(log, recent)
        for block in _blocks(path, reader):
            for line in block.split(b"\n"):
                yield from reader.read(line, now_seconds)
        reader.finish()


def _blocks(path: Path, reader: LineReader) -> Iterator[bytes]:
    """Return a file's whole lines, many at a time; count those over the limit."""
    if path.suffix == ".parquet":
        yield from parquet_blocks(path)
        return
    try:
        with open_log(path) as file:
            yield from _whole_lines(file, reader)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except (EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"is damaged: {error}", path=path) from error


def _whole_lines(file: BinaryIO, reader: LineReader) -> Iterator[bytes]:
    rest, skipping = b"", False
    while more := file.read(LINE_LIMIT_BYTES):
        end = more.rfind(b"\n") + 1
        if end and skipping:
            rest, more, skipping = b"", more[more.find(b"\n") + 1 :], False
            end = more.rfind(b"\n") + 1
        if end:
            yield rest + more[:end]
            rest = more[end:]
        elif not skipping:
            rest += more
        if len(rest) > LINE_LIMIT_BYTES:
            reader.skip_too_long()
            rest, skipping = b"", True
    if rest:
        yield rest
