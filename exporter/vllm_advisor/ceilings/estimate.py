"""A size in bytes with the range that it may turn out to lie in."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes on one GPU.

    Args:
        expected_bytes: the best single figure.
        low_bytes: the least that is likely.
        high_bytes: the most that is likely.
        basis: what the figure rests on, in a few words.
    """

    expected_bytes: int
    low_bytes: int
    high_bytes: int
    basis: str

    @classmethod
    def given(cls, size_bytes: int) -> Estimate:
        """Return a figure that the user gave."""
        return cls(size_bytes, size_bytes, size_bytes, "given")

    @classmethod
    def around(cls, size_bytes: float, low_ratio: float, high_ratio: float, basis: str) -> Estimate:
        """Return a predicted figure with its range as ratios of it."""
        return cls(int(size_bytes), int(size_bytes * low_ratio), int(size_bytes * high_ratio), basis)
