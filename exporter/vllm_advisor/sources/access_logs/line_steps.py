"""Steps across many lines at once.

Each checks what comes next in every line, reads what is wanted of it, and leaves behind the lines where
something else comes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.access_logs.line_block import LineBlock, Places

__all__ = ["POWERS", "Digits", "Flag", "Number", "Step", "Stretch", "Text", "Walk"]

_QUOTE, _ZERO, _POINT, _BRACE = b'"0.{'
_WORD_BYTES = 8
_TRUE, _FALSE = (int.from_bytes(word, "little") for word in (b"true", b"false"))
_FIRST_BYTE, _FOUR_BYTES, _FIVE_BYTES = 0xFF, (1 << 32) - 1, (1 << 40) - 1
_ZEROS = np.uint64(0x3030303030303030)
_TO_HIGH_BIT = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_COUNTS = 0x0001020304050607
"""Multiplied with 256**count, its highest byte is the count."""
_UNUSED_BITS = np.array([64 - 8 * count for count in range(9)], np.uint64)
POWERS = 10 ** np.arange(17)
"""Of ten."""
_STRING_REST = re.compile(
    rb'[^"\\]*(?:\\(?:["\\/bfnrt]|u(?:[\dA-Ca-cE-Fe-f][\dA-Fa-f]|[Dd][0-7])[\dA-Fa-f]{2}'
    rb'|u[Dd][89ABab][\dA-Fa-f]{2}\\u[Dd][C-Fc-f][\dA-Fa-f]{2})[^"\\]*)*(?=")'
)


@dataclass(slots=True)
class Walk:
    """How far the lines that went along are read.

    Args:
        block: the lines.
        rows: which of them.
        at: where the next step begins in each.
        escapes: backslashes of each line not yet come across.
        values: each wanted number, and where each wanted text is, by name.
        lengths: of each wanted value in bytes, by name.
    """

    block: LineBlock
    rows: Places
    at: Places
    escapes: NDArray[np.int64]
    values: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    lengths: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, block: LineBlock, rows: Places) -> Walk:
        """Begin some lines of a block."""
        return cls(block, rows, block.starts[rows], block.escapes[rows])

    def note(self, name: str, values: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Note what is wanted."""
        self.values[name], self.lengths[name] = values, lengths

    def keep(self, good: NDArray[np.bool_]) -> None:
        """Leave the other lines behind."""
        if good.all():
            return
        self.rows, self.at, self.escapes = self.rows[good], self.at[good], self.escapes[good]
        self.values = {name: values[good] for name, values in self.values.items()}
        self.lengths = {name: lengths[good] for name, lengths in self.lengths.items()}


class Step(Protocol):
    """What comes next in every line."""

    def walk(self, lines: Walk) -> None:
        """Go over it, and leave behind the lines where it does not come."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Bytes of one length, of which some are the same in every line.

    Args:
        pattern: the bytes as little-endian words, for several lines in a row.
        mask: 255 for each byte that is the same, for as many lines.
        width: bytes of one line in them, whole words.
        strings: where there are strings' contents.
        texts: where there are wanted texts, by name.
        numbers: where there are wanted numbers, by name, and whether they may begin with a zero.
        length: bytes that belong to it.
    """

    pattern: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    width: int
    strings: tuple[slice, ...]
    texts: Mapping[str, slice]
    numbers: Mapping[str, tuple[slice, bool]]
    length: int

    def walk(self, lines: Walk) -> None:
        """Compare, and note what is wanted."""
        found = lines.block.windows(self._in_rows(lines.at), self.width)
        wrong = [found[: lines.at.size, place] == _QUOTE for place in self.strings]
        words = found.view("<u8").reshape(-1, self.pattern.size)
        words ^= self.pattern
        words &= self.mask
        wrong = [some for some in wrong if some.any()]
        if words.size and words.max():
            wrong.append(found[: lines.at.size])
        for name, place in self.texts.items():
            lines.note(name, lines.at + place.start, np.full(lines.at.size, place.stop - place.start))
        for name, (place, padded) in self.numbers.items():
            length = place.stop - place.start
            number, is_number = _fixed_number(lines.block, lines.at + place.start, length)
            if not padded:
                is_number &= (lines.block.letters(lines.at + place.start) != _ZERO) | (length == 1)
            wrong += [] if is_number.all() else [~is_number[:, np.newaxis]]
            lines.note(name, number, np.full(lines.at.size, length))
        lines.at = lines.at + self.length
        if wrong:
            lines.keep(~np.logical_or.reduce([some.any(axis=1) for some in wrong]))

    def _in_rows(self, at: Places) -> Places:
        """Return places of as many lines as are compared at once, or a multiple."""
        lines = self.pattern.nbytes // self.width
        return np.concatenate([at, at[:1].repeat(-at.size % lines)])


@dataclass(frozen=True, slots=True)
class Text:
    """A string's content, up to its closing quote.

    Args:
        name: as which its place and length are noted; what has a name must have no escapes.
        usual_bytes: how far the quote is mostly away.
        opened: whether it would be read as JSON if it began like an object, which it then must not.
    """

    name: str | None
    usual_bytes: int
    opened: bool = False

    def walk(self, lines: Walk) -> None:
        """Look for the quote."""
        is_quote = lines.block.windows(lines.at, self.usual_bytes) == _QUOTE
        ends = lines.at + is_quote.argmax(axis=1)
        for row in np.flatnonzero(lines.block.letters(ends) != _QUOTE).tolist():
            ends[row] = lines.block.content.find(b'"', lines.at[row])
        if self.name is None:
            for row in np.flatnonzero(lines.escapes).tolist():
                ends[row] = self._end_of_escaped(lines, row)
        good = ends >= 0
        if self.opened:
            good &= lines.block.letters(lines.at) != _BRACE
        if self.name is not None:
            lines.note(self.name, lines.at, ends - lines.at)
        lines.at = ends
        lines.keep(good)

    def _end_of_escaped(self, lines: Walk, row: int) -> int:
        match = _STRING_REST.match(lines.block.content, lines.at[row])
        if match is None:
            return -1
        lines.escapes[row] -= match[0].count(b"\\")
        return match.end()


@dataclass(frozen=True, slots=True)
class Digits:
    """A wanted number of nothing but digits.

    Args:
        name: as which it is noted, with its length.
        words: how many times eight digits to look for; one less is the most there may be.
        padded: whether it may begin with a zero, which one that is not 0 itself may not in JSON.
    """

    name: str
    words: int
    padded: bool

    def walk(self, lines: Walk) -> None:
        """Read it."""
        words = lines.block.words(lines.at)
        length = _leading_digits(words)
        number = _number(words, length)
        good = length > 0
        if not self.padded:
            good &= words & _FIRST_BYTE != _ZERO
        for word in range(1, self.words):
            more = lines.block.words(lines.at + word * _WORD_BYTES)
            further = np.where(length == word * _WORD_BYTES, _leading_digits(more), 0)
            number, length = number * POWERS[further] + _number(more, further), length + further
        good &= length < self.words * _WORD_BYTES
        lines.note(self.name, number, length)
        lines.at = lines.at + length
        lines.keep(good)


@dataclass(frozen=True, slots=True)
class Number:
    """A number that nobody wants, such as 12 or 0.25.

    Args:
        words: how many times eight digits to look for, before the point and after it.
    """

    words: int

    def walk(self, lines: Walk) -> None:
        """Go over it."""
        whole = _digits(lines.block, lines.at, self.words)
        good = (whole > 0) & ((lines.block.letters(lines.at) != _ZERO) | (whole == 1))
        lines.at = lines.at + whole
        has_point = lines.block.letters(lines.at) == _POINT
        if has_point.any():
            fraction = _digits(lines.block, lines.at + has_point, self.words)
            good &= (fraction > 0) | ~has_point
            lines.at = lines.at + np.where(has_point, fraction + 1, 0)
        lines.keep(good)


@dataclass(frozen=True, slots=True)
class Flag:
    """Either of true and false."""

    def walk(self, lines: Walk) -> None:
        """Go over it."""
        words = lines.block.words(lines.at)
        is_true, is_false = (words & _FOUR_BYTES) == _TRUE, (words & _FIVE_BYTES) == _FALSE
        lines.at = lines.at + np.where(is_true, 4, 5)
        lines.keep(is_true | is_false)


def _digits(block: LineBlock, at: Places, words: int) -> NDArray[np.int64]:
    """Return how many digits there are from each place on."""
    count = _leading_digits(block.words(at))
    for word in range(1, words):
        further = _leading_digits(block.words(at + word * _WORD_BYTES))
        count = np.where(count == word * _WORD_BYTES, count + further, count)
    return count


def _leading_digits(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    ends = _no_digits(words)
    count = ((ends & -ends) >> 7) * _COUNTS >> 56
    return np.where(ends == 0, _WORD_BYTES, count.view(np.int64))


def _no_digits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the high bits of the first byte that is no digit, and of some after it."""
    values = words ^ _ZEROS
    values |= values + _TO_HIGH_BIT
    values &= _HIGH_BITS
    return values


def _number(words: NDArray[np.uint64], length: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the number in the first bytes of each word."""
    digits = (words ^ _ZEROS) << _UNUSED_BITS[length]
    pairs = (digits * 2561 >> 8) & 0x00FF00FF00FF00FF
    fours = (pairs * 6553601 >> 16) & 0x0000FFFF0000FFFF
    return (fours * 42949672960001 >> 32).view(np.int64)


def _fixed_number(block: LineBlock, at: Places, length: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers at some places, and whether there are that many digits."""
    number, good = np.zeros(at.size, np.int64), np.ones(at.size, np.bool_)
    for first in range(0, length, _WORD_BYTES):
        words, held = block.words(at + first), min(length - first, _WORD_BYTES)
        good &= _no_digits(words << _UNUSED_BITS[held]) >> _UNUSED_BITS[held] == 0
        number = number * POWERS[held] + _number(words, held)
    return number, good
