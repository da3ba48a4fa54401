"""Lines of a block as columns: where each starts, and some bytes of every line at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_BYTES", "LINE_LIMIT_BYTES", "LONGEST_WINDOW_BYTES", "LineBlock", "Places"]

LINE_LIMIT_BYTES = 1 << 20
"""Longer lines are skipped; so are records put together from parts."""
BLOCK_BYTES = 2 << 20
"""Read at once: each block costs as much as some hundred lines."""
LONGEST_WINDOW_BYTES = 512
"""The most that may be looked at from one place."""
_MARGIN_BYTES = 2 * LONGEST_WINDOW_BYTES
"""Beyond the last line, where a line that is cut leads."""

_NEWLINE, _RETURN, _BACKSLASH, _FIRST_PRINTED, _FIRST_OUTSIDE_ASCII = 10, 13, 92, 32, 128
"""Bytes outside ASCII are negative as signed numbers, and so below all that is printed."""
_WORD_BYTES = 8
_PLACES_OF_MARKS = np.uint64(0x0001020304050607)
"""Multiplied with 256**place, its highest byte is the place."""

Places = NDArray[np.int64]
"""Offsets into a block, one for each line."""


class LineBlock:
    """Whole lines of a log.

    Args:
        content: lines with their newlines; the last one may lack it.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        end = b"" if content.endswith(b"\n") else b"\n"
        unused = -(len(content) + len(end)) % _WORD_BYTES
        self._bytes = np.frombuffer(content + (end + b" " * (unused + _MARGIN_BYTES)), np.uint8)
        odd = self._where(self._bytes.view(np.int8) < _FIRST_PRINTED)
        is_end = self._bytes[odd] == _NEWLINE
        self.ends = odd[is_end]
        """Of each line, without its newline."""
        self.starts = np.concatenate([[0], self.ends[:-1] + 1])
        self.escapes = np.zeros(self.ends.size, np.int64)
        """Backslashes of each line."""
        if b"\\" in content:
            backslashes = self._where(self._bytes == _BACKSLASH)
            self.escapes = np.bincount(self._rows(backslashes), minlength=self.ends.size)
        self.is_text = self.ends - self.starts <= LINE_LIMIT_BYTES
        """Lines within the limit, of valid UTF-8, without control characters but a last carriage return."""
        if self.ends.size < odd.size:
            self._find_text(odd[~is_end])

    def line(self, row: int) -> bytes:
        """Return a line without its newline."""
        return self.content[self.starts[row] : self.ends[row]]

    def windows(self, at: Places, width: int) -> NDArray[np.uint8]:
        """Return the bytes from some places on, a row of ``width`` each."""
        return self._view(f"V{width}", width)[at].view(np.uint8).reshape(-1, width)

    def words(self, at: Places) -> NDArray[np.uint64]:
        """Return eight bytes from each of some places as a little-endian number."""
        return self._view("V8", 8)[at].view("<u8")

    def letters(self, at: Places) -> NDArray[np.uint8]:
        """Return the byte at each of some places."""
        return self._bytes[at]

    def _view(self, dtype: str, width: int) -> NDArray[np.void]:
        return np.ndarray((self._bytes.size - width + 1,), dtype, self._bytes.data, strides=(1,))

    def _where(self, mask: NDArray[np.bool_]) -> Places:
        """Return where a mask is set, sooner than `numpy.flatnonzero` where that is seldom."""
        words: NDArray[np.uint64] = mask.view("<u8")
        found = np.flatnonzero(words != 0)
        marks = words[found]
        if (marks & (marks - 1)).any():
            return np.flatnonzero(mask)
        places: Places = (marks * _PLACES_OF_MARKS >> np.uint64(56)).view(np.int64)
        places += found * _WORD_BYTES
        return places

    def _find_text(self, odd: Places) -> None:
        """Tell lines that are no text by control characters, and by bytes outside ASCII."""
        letters = self._bytes[odd]
        is_return: NDArray[np.bool_] = (letters == _RETURN) & (self._bytes[odd + 1] == _NEWLINE)
        is_outside = letters >= _FIRST_OUTSIDE_ASCII
        self.is_text[self._rows(odd[~is_return & ~is_outside])] = False
        if is_outside.any() and not _is_utf8(self.content):
            rows = np.unique(self._rows(odd[is_outside]))
            self.is_text[[row for row in rows.tolist() if not _is_utf8(self.line(row))]] = False

    def _rows(self, at: Places) -> Places:
        return np.searchsorted(self.ends, at)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
