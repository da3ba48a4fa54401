"""Which records were seen before, within a bounded memory."""

from __future__ import annotations

__all__ = ["REMEMBERED", "Recent"]

REMEMBERED = 65_536
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

    def seen(self, names: tuple[str, ...]) -> bool:
        """Tell whether any of a record's names was seen before, and remember all of them."""
        hashes = [hash(name) for name in names]
        known = any(one in self._newer or one in self._older for one in hashes)
        self._newer.update(hashes)
        if len(self._newer) >= self._kept:
            self._newer, self._older = set(), self._newer
        return known
