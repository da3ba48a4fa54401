"""Whole files, or parts of plain ones: plain, .gz, .zst or Parquet, with lines of any length."""

from __future__ import annotations

import glob
import gzip
import io
import os
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import zstandard

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.errors import InputError
from vllm_advisor.sources.access_logs.line_block import BLOCK_BYTES, LINE_LIMIT_BYTES
from vllm_advisor.sources.access_logs.parquet import parquet_blocks
from vllm_advisor.sources.access_logs.reader import LineReader
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.sources.access_logs.request import Logged, LoggedRequest

__all__ = [
    "PACKED_SUFFIXES",
    "find_files",
    "line_start",
    "open_log",
    "read_file",
    "read_part",
    "read_requests",
]

PACKED_SUFFIXES = frozenset({".gz", ".zst"})
_STANDARD_INPUT = "-"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def find_files(paths: tuple[str, ...]) -> list[Path]:
    """Return the files that some globs match, oldest change first."""
    found: set[Path] = set()
    for pattern in paths:
        names = glob.iglob(pattern, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        found.update(map(Path, names))
    changed: list[tuple[float, Path]] = []
    for path in found:
        with suppress(FileNotFoundError):
            if path.is_file():
                changed.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(changed)]


@contextmanager
def open_log(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a file for what it holds, unpacked: .gz and .zst by name, standard input (``-``) by its start."""
    with os.fdopen(os.dup(0), "rb") if str(path) == _STANDARD_INPUT else path.open("rb") as file:
        packing = _packing_of(file) if str(path) == _STANDARD_INPUT else path.suffix
        if packing == ".gz":
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked
        elif packing == ".zst":
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            with io.BufferedReader(reader) as unpacked:
                yield unpacked
        else:
            yield file


def _packing_of(file: io.BufferedReader) -> str | None:
    start = file.peek(len(_ZSTD))
    return ".gz" if start.startswith(_GZIP) else ".zst" if start.startswith(_ZSTD) else None


def read_file(path: Path, reader: LineReader) -> Iterator[Logged]:
    """Read a whole file.

    Raises:
        InputError: the file cannot be read, or not to its end.
    """
    now_seconds = time.time()
    for block in _blocks(path, reader):
        yield from reader.read_block(block, 0, now_seconds)
    reader.finish()


def read_part(path: Path, reader: LineReader, part: range, now_seconds: float) -> Iterator[Logged]:
    """Read the lines of a plain file between two offsets, each where a line starts or the file ends.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(part.start)
            for block in _whole_lines(file, reader, len(part)):
                yield from reader.read_block(block, part.start, now_seconds)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error


def line_start(path: Path, offset: int) -> int:
    """Return where the first line starts at or after an offset of a plain file; its end without one.

    Raises:
        InputError: the file cannot be read.
    """
    if offset <= 0:
        return 0
    try:
        with path.open("rb") as file:
            file.seek(offset - 1)
            while (line := file.readline(LINE_LIMIT_BYTES)) and not line.endswith(b"\n"):
                pass
            return file.tell()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error


def read_requests(log: AccessLogConfig, *, now_seconds: float | None = None) -> Iterator[LoggedRequest]:
    """Read every file of some access logs as they are now, request by request.

    Args:
        log: which files, and what they are.
        now_seconds: epoch seconds, those of the wall clock unless given; infinite where they say nothing of
            the lines.

    Raises:
        InputError: a file cannot be read.
    """
    recent = Recent(REMEMBERED)
    now_seconds = time.time() if now_seconds is None else now_seconds
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


def _whole_lines(file: io.BufferedIOBase, reader: LineReader, size: int = sys.maxsize) -> Iterator[bytes]:
    """Return a file's whole lines, many at a time, out of one buffer; count those over the limit."""
    buffer = bytearray(LINE_LIMIT_BYTES + BLOCK_BYTES)
    view, held, skipping = memoryview(buffer), 0, False
    while more := file.readinto(view[held : held + min(size, BLOCK_BYTES)]):
        size -= more
        filled = held + more
        end = buffer.rfind(b"\n", held, filled) + 1
        if not end:
            held = 0 if skipping else filled
            if held > LINE_LIMIT_BYTES:
                reader.skip_too_long()
                held, skipping = 0, True
            continue
        start = buffer.find(b"\n", held) + 1 if skipping else 0
        skipping = False
        if start < end:
            yield bytes(view[start:end])
        held = filled - end
        view[:held] = bytes(view[end:filled])
    if held:
        yield bytes(view[:held])
