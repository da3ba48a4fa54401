"""Counts over logarithmic buckets, in memory that follows their spread."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Any

__all__ = ["BUCKET_WIDTH", "LogHistogram"]

BUCKET_WIDTH = 0.02
"""Natural logarithm of the ratio between a bucket's bounds: a value is known to 1%."""

_LOWEST, _HIGHEST = -500, 500
"""Buckets beyond these (45 microseconds, 22,000 seconds) take what lies outside."""


class LogHistogram:
    """Weights of positive values by logarithm; as many buckets as the values span, at most 1,001."""

    __slots__ = ("counts", "first")

    def __init__(self, first: int = 0, counts: Iterable[float] = ()) -> None:
        self.first = first
        self.counts = array("d", counts)

    def add(self, value: float, weight: float) -> None:
        """Count one value."""
        self.add_at(round(math.log(value) / BUCKET_WIDTH), weight)

    def add_at(self, bucket: int, weight: float) -> None:
        """Count into one bucket, the one whose middle is ``exp(bucket * BUCKET_WIDTH)``."""
        bucket = min(max(bucket, _LOWEST), _HIGHEST)
        if not self.counts:
            self.first = bucket
        index = bucket - self.first
        if index < 0:
            self.counts = array("d", bytes(-8 * index)) + self.counts
            self.first, index = bucket, 0
        elif index >= len(self.counts):
            self.counts.extend([0.0] * (index + 1 - len(self.counts)))
        self.counts[index] += weight

    def merge(self, other: LogHistogram) -> None:
        """Add another's counts."""
        for index, weight in enumerate(other.counts):
            if weight:
                self.add_at(other.first + index, weight)

    def scale(self, factor: float) -> None:
        """Multiply every count."""
        self.counts = array("d", (weight * factor for weight in self.counts))

    def quantile(self, quantile: float) -> float | None:
        """Return the value below which a part of the weight lies, None where nothing was counted."""
        left = quantile * math.fsum(self.counts)
        found = None
        for index, weight in enumerate(self.counts):
            if weight:
                found = math.exp((self.first + index) * BUCKET_WIDTH)
            left -= weight
            if left <= 0:
                break
        return found

    def state(self) -> list[Any]:
        """Return the content as plain JSON values."""
        return [self.first, list(self.counts)]
