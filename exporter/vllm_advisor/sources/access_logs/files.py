"""Whole files: plain, .gz or .zst, lines of any length, and Parquet as far as `contexts` needs it."""

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
from vllm_advisor.sources.access_logs.reader import LINE_LIMIT_BYTES, LineReader
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.sources.access_logs.request import LoggedRequest

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


def read_file(path: Path, reader: LineReader) -> Iterator[LoggedRequest]:
    """Read a whole file.

    Raises:
        InputError: the file cannot be read, or not to its end.
    """
    now_seconds = time.time()
    try:
        with open_log(path) as file:
            while line := file.readline(LINE_LIMIT_BYTES):
                if len(line) == LINE_LIMIT_BYTES and not line.endswith(b"\n"):
                    _skip_line(file)
                    reader.skip_too_long()
                else:
                    yield from reader.read(line, now_seconds)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except (EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"is damaged: {error}", path=path) from error
    reader.finish()


def read_requests(log: AccessLogConfig) -> Iterator[LoggedRequest]:
    """Read every file of some access logs as they are now.

    Raises:
        InputError: a file cannot be read.
    """
    recent = Recent(REMEMBERED)
    for path in find_files(log.paths):
        yield from read_file(path, LineReader(log, recent))


def _skip_line(file: BinaryIO) -> None:
    while (part := file.readline(LINE_LIMIT_BYTES)) and not part.endswith(b"\n"):
        pass
