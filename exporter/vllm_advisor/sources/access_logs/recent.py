"""Which records were seen before, within a bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["REMEMBERED", "Recent"]

REMEMBERED = 16_384
"""Records a deployment's logs remember, unless told otherwise."""


class Recent:
    """Remembers at least the last ``kept`` names, and at most twice as many.

    Args:
        kept: how many.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._newer: set[int] = set()
        self._older: set[int] = set()

    def copy(self) -> Recent:
        """Return one that remembers the same."""
        other = Recent(self._kept)
        other._newer, other._older = self._newer.copy(), self._older.copy()
        return other

    def seen(self, names: tuple[str, ...]) -> bool:
        """Tell whether any of a record's names was seen before, and remember all of them."""
        hashes = set(map(hash, names))
        known = not (self._newer.isdisjoint(hashes) and self._older.isdisjoint(hashes))
        self._remember(hashes)
        return known

    def all_new(self, names: Sequence[str]) -> bool:
        """Tell whether records, one by each name, are all new, and remember them only then."""
        hashes = set(map(hash, names))
        if len(hashes) < len(names) or not (
            self._newer.isdisjoint(hashes) and self._older.isdisjoint(hashes)
        ):
            return False
        self._remember(hashes)
        return True

    def _remember(self, hashes: set[int]) -> None:
        self._newer |= hashes
        if len(self._newer) >= self._kept:
            self._newer, self._older = set(), self._newer
