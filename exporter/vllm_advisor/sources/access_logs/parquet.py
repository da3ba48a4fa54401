"""Parquet files as the JSON lines they stand for, with the optional extra ``parquet``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from vllm_advisor.errors import InputError

__all__ = ["parquet_blocks"]

_ROWS_AT_ONCE = 4096


def parquet_blocks(path: Path) -> Iterator[bytes]:
    """Return the rows as JSON, a line each, many at a time.

    Raises:
        InputError: the file is no Parquet, or what reads it is not installed.
    """
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise InputError("needs pyarrow: install vllm-advisor[parquet]", path=path) from None
    encoder = msgspec.json.Encoder()
    try:
        for batch in parquet.ParquetFile(path).iter_batches(_ROWS_AT_ONCE):
            yield encoder.encode_lines(batch.to_pylist())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except ArrowException as error:
        raise InputError(f"is no Parquet file: {str(error).splitlines()[0]}", path=path) from error
