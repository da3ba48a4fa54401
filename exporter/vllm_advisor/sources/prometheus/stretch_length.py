"""How much of the past to ask a store for at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StretchLength"]

_FIRST_SECONDS = 300.0
_SHORTEST_SECONDS = 60.0
_LONGEST_SECONDS = 7200.0
_SAMPLES_AT_ONCE = 400_000
_GROWTH = 1.02
"""How much longer a stretch may be after each answer than the store would give before."""


@dataclass(slots=True)
class StretchLength:
    """Comes to as many seconds as hold about as many samples each time, and no more than a store gives."""

    seconds: float = _FIRST_SECONDS
    most_seconds: float = _LONGEST_SECONDS

    def fit(self, samples_per_second: float) -> None:
        """Go by how many samples came."""
        wanted_seconds = _SAMPLES_AT_ONCE / max(samples_per_second, 1.0)
        self.most_seconds = min(_LONGEST_SECONDS, _GROWTH * self.most_seconds)
        self.seconds = min(self.most_seconds, 4 * self.seconds, max(_SHORTEST_SECONDS, wanted_seconds))

    def shorten(self, asked_seconds: float) -> bool:
        """Ask for less from now on; return whether that is possible."""
        if asked_seconds <= _SHORTEST_SECONDS:
            return False
        self.seconds = self.most_seconds = max(_SHORTEST_SECONDS, asked_seconds / 2)
        return True
