"""Counts of which most are zero, a few bytes for each that is not."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SparseCounts"]


class SparseCounts:
    """Counts by cell, as arrays or as text until they are asked for: little of a restored window ever is.

    Args:
        arrays: the cells that are not zero, and their counts.
        texts: the same as base64 of little-endian integers; one of both is given.
    """

    def __init__(
        self, arrays: tuple[NDArray[Any], NDArray[Any]] | None = None, texts: tuple[str, str] | None = None
    ) -> None:
        self._arrays, self._texts = arrays, texts

    @classmethod
    def of(cls, whole: NDArray[np.int64]) -> SparseCounts:
        """Return the counts of an array, zeros included."""
        cells = np.flatnonzero(whole)
        return cls(arrays=(cells.astype(np.uint16), _narrowest(whole[cells])))

    def add_to(self, whole: NDArray[np.int64]) -> None:
        """Add every count to others."""
        cells, counts = self._arrays = self._arrays or _arrays(self._texts or ("", ""))
        whole[cells] += counts

    def texts(self) -> tuple[str, str]:
        """Return cells and counts as base64 of little-endian integers."""
        if self._texts is None:
            cells, counts = self._arrays or _arrays(("", ""))
            self._texts = _text(cells.astype("<u2")), _text(counts.astype(counts.dtype.newbyteorder("<")))
        return self._texts

    @classmethod
    def from_texts(cls, cells: str, counts: str) -> SparseCounts:
        """Rebuild them from their `texts`.

        Raises:
            TypeError, ValueError: their lengths are not those of texts that `texts` gave.
        """
        number, odd = divmod(_bytes_held(cells), 2)
        if odd or _bytes_held(counts) not in {number, 2 * number, 4 * number}:
            raise ValueError("counts that do not fit their cells")
        return cls(texts=(cells, counts))


def _arrays(texts: tuple[str, str]) -> tuple[NDArray[Any], NDArray[Any]]:
    cells, packed = np.frombuffer(base64.b64decode(texts[0]), "<u2"), base64.b64decode(texts[1])
    return cells, np.frombuffer(packed, f"<u{len(packed) // max(cells.size, 1) or 1}")


def _narrowest(counts: NDArray[np.int64]) -> NDArray[Any]:
    widest = int(counts.max(initial=0))
    return counts.astype(np.uint8 if widest < 1 << 8 else np.uint16 if widest < 1 << 16 else np.uint32)


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def _bytes_held(text: str) -> int:
    if len(text) % 4:
        raise ValueError("text that is cut")
    return len(text) // 4 * 3 - text[-2:].count("=")
