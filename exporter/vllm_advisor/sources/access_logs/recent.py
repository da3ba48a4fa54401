"""Which records were seen before, within a bounded memory.

A name is remembered as 64 bits worked out from it with keys of this process, by one rule for a name alone and
for many at once.
"""

from __future__ import annotations

import secrets
from functools import reduce

import numpy as np
from numpy.typing import NDArray

__all__ = ["LONGEST_NAME_BYTES", "REMEMBERED", "Recent", "hash_of", "hashes_of"]

REMEMBERED = 16_384
"""Records a deployment's logs remember, unless told otherwise."""

LONGEST_NAME_BYTES = 256
"""Of names worked out as columns."""

_WORD_BYTES = 8
_WORD = (1 << 64) - 1
_FOLD_BITS = 32
_FOLD = np.uint64(_FOLD_BITS)
_KEYS = [secrets.randbits(64) | 1 for _ in range(LONGEST_NAME_BYTES // _WORD_BYTES)]
_KEY_COLUMN = np.array(_KEYS, np.uint64)
_FIRST_BYTES = np.array([(1 << 8 * held) - 1 for held in range(9)], np.uint64)
"""Masks for the first bytes of a little-endian word."""

_SLOT_BITS = 20
_SLOT_SHIFTS = tuple(np.uint64(shift) for shift in (0, 20, 40))
"""Three slots a name: of a full memory's names, one in two thousand new ones meets only marked slots."""
_LAST_SLOT = np.uint64((1 << _SLOT_BITS) - 1)
_LAST_NUMBER = 255

_NO_NAMES = np.empty(0, np.uint64)


def hash_of(name: str) -> int:
    """Return what a name is remembered as."""
    letters = name.encode("utf-8", "surrogatepass")
    total = len(letters) * _KEYS[-1]
    for number, at in enumerate(range(0, len(letters), _WORD_BYTES)):
        word = int.from_bytes(letters[at : at + _WORD_BYTES], "little")
        word = (word ^ (word >> _FOLD_BITS)) * _KEYS[number % len(_KEYS)] & _WORD
        total += word ^ (word >> _FOLD_BITS)
    return total & _WORD


def hashes_of(words: NDArray[np.uint64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return what many names are remembered as.

    Args:
        words: their UTF-8 bytes as little-endian words, a row each; what follows a name is ignored.
        lengths: of each name, in bytes.
    """
    words = words & _FIRST_BYTES[_held(lengths, words.shape[1])]
    words = (words ^ (words >> _FOLD)) * _KEY_COLUMN[: words.shape[1]]
    words ^= words >> _FOLD
    hashes: NDArray[np.uint64] = reduce(np.add, words.T)
    hashes += lengths.astype(np.uint64) * _KEY_COLUMN[-1]
    return hashes


def _held(lengths: NDArray[np.int64], words: int) -> NDArray[np.int64]:
    """Return how many bytes of each name its words hold; one row for all names where these are as long."""
    if lengths.size and (lengths == lengths[0]).all():
        lengths = lengths[:1]
    left: NDArray[np.int64] = lengths[:, np.newaxis] - _WORD_BYTES * np.arange(words)
    return np.minimum(np.maximum(left, 0), _WORD_BYTES)


class _Generation:
    """Names that are forgotten together."""

    def __init__(self, names: NDArray[np.uint64]) -> None:
        self.size = names.size
        self._room = names

    def add(self, names: NDArray[np.uint64]) -> None:
        size = self.size + names.size
        if size > self._room.size:
            self._room = np.concatenate([self._room[: self.size], np.empty(size, np.uint64)])
        self._room[self.size : size] = names
        self.size = size

    def holds(self, name: int) -> bool:
        return bool((self._room[: self.size] == name).any())

    def copy(self) -> _Generation:
        return _Generation(self._room[: self.size].copy())


class Recent:
    """Remembers the names of at least the last ``kept`` records, and of about twice as many at most.

    A table of slots, each marked with the last generation of names that fell into it, tells most new names
    from those to look for among the remembered ones.

    Args:
        kept: how many.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._newer, self._older = _Generation(_NO_NAMES), _Generation(_NO_NAMES)
        self._number = 1
        self._marks = np.zeros(1 << _SLOT_BITS, np.uint8)

    def copy(self) -> Recent:
        """Return one that remembers the same."""
        other = Recent(self._kept)
        other._newer, other._older = self._newer.copy(), self._older.copy()
        other._number, other._marks = self._number, self._marks.copy()
        return other

    def seen(self, names: tuple[str, ...]) -> bool:
        """Tell whether any of a record's names was seen before, and remember all of them."""
        hashes = {hash_of(name) for name in names}
        known = [self._holds(name) for name in hashes if self._may_hold(name)]
        self.remember(np.array(list(hashes), np.uint64))
        return any(known)

    def known(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell of each name, given as its hash, whether it was seen before."""
        known = np.ones(hashes.size, np.bool_)
        for slots in _slots(hashes):
            known &= self._marks[slots] >= self._oldest
        for row in np.flatnonzero(known).tolist():
            known[row] = self._holds(int(hashes[row]))
        return known

    def remember(self, hashes: NDArray[np.uint64]) -> None:
        """Remember names, given as their hashes."""
        self._newer.add(hashes)
        for slots in _slots(hashes):
            self._marks[slots] = self._number
        if self._newer.size >= self._kept:
            self._newer, self._older = _Generation(_NO_NAMES), self._newer
            self._number += 1
        if self._number > _LAST_NUMBER:
            self._marks = (self._marks == _LAST_NUMBER).astype(np.uint8)
            self._number = 2

    @property
    def _oldest(self) -> int:
        """The number of the older generation; slots never marked have none."""
        return max(self._number - 1, 1)

    def _may_hold(self, name: int) -> bool:
        slots = (name >> int(shift) & int(_LAST_SLOT) for shift in _SLOT_SHIFTS)
        return all(self._marks[slot] >= self._oldest for slot in slots)

    def _holds(self, name: int) -> bool:
        return self._newer.holds(name) or self._older.holds(name)


def _slots(hashes: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    return [(hashes >> shift) & _LAST_SLOT for shift in _SLOT_SHIFTS]
