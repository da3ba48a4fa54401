"""Reads many numbers out of one text at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Positions", "Words", "read_numbers", "words_before"]

Words = NDArray[np.uint64]
Positions = NDArray[np.intp]

_AT_ONCE = 16_384
"""So many fit a processor's cache."""
_WORD_BYTES = 8
_WHOLE_DIGITS = 15
"""So many are exact in 53 bits."""
_ZEROS = np.uint64(0x3030303030303030)
_NOT_A_DIGIT = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)


def read_numbers(text: bytes, starts: Positions, ends: Positions) -> NDArray[np.float64]:
    """Return the number that stands between each start and end.

    Whole ones of up to 15 digits, which most are, are worked out together; the others as `float` does.

    Args:
        text: there are at least eight bytes in it before the first end.
        starts: position of each number.
        ends: the position after each.

    Raises:
        ValueError: something else stands there.
    """
    parts = [slice(at, at + _AT_ONCE) for at in range(0, len(starts), _AT_ONCE)]
    numbers = [_read_some(text, starts[part], ends[part]) for part in parts]
    return np.concatenate([np.zeros(0), *numbers])


def _read_some(text: bytes, starts: Positions, ends: Positions) -> NDArray[np.float64]:
    lengths = ends - starts
    low, low_whole = _digits(words_before(text, ends), lengths)
    numbers = low.astype(np.float64)
    is_whole = low_whole & (lengths > 0) & (lengths <= _WHOLE_DIGITS)
    longer = np.flatnonzero(is_whole & (lengths > _WORD_BYTES))
    if longer.size:
        high, high_whole = _digits(
            words_before(text, ends[longer] - _WORD_BYTES), lengths[longer] - _WORD_BYTES
        )
        numbers[longer] += high.astype(np.float64) * 1e8
        is_whole[longer] = high_whole
    others = np.flatnonzero(~is_whole)
    spans = zip(starts[others].tolist(), ends[others].tolist(), strict=True)
    numbers[others] = [float(text[start:end]) for start, end in spans]
    return numbers


def words_before(text: bytes, ends: Positions) -> Words:
    """Return the eight bytes before each position as one little-endian number."""
    words = np.ndarray((len(text) - _WORD_BYTES + 1,), np.dtype("<u8"), text, strides=(1,))
    return words[ends - _WORD_BYTES].astype(np.uint64, copy=False)


def _digits(words: Words, lengths: Positions) -> tuple[Words, NDArray[np.bool_]]:
    """Return the number that the last bytes of each word spell, and whether they are nothing but digits.

    Neighbours are joined pairwise: digits to pairs, pairs to fours, fours to all eight.
    """
    unused = 8 * np.clip(_WORD_BYTES - lengths, 0, _WORD_BYTES - 1).astype(np.uint64)
    digits = ((words ^ _ZEROS) >> unused) << unused
    is_whole = ((digits + _NOT_A_DIGIT) | digits) & _HIGH_BITS == 0
    pairs = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (fours * np.uint64(10_000) + (fours >> np.uint64(32))) & np.uint64(0xFFFFFFFF), is_whole
