"""Counts over logarithmic buckets, in memory that follows their spread."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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

    def add(self, values: Floats, weights: Floats) -> None:
        """Count values."""
        self._add_at(np.round(np.log(values) / BUCKET_WIDTH).astype(np.intp), weights)

    def merge(self, other: LogHistogram) -> None:
        """Add another's counts."""
        weights = np.array(other.counts)
        held = np.flatnonzero(weights)
        self._add_at(other.first + held, weights[held])

    def _add_at(self, buckets: NDArray[np.intp], weights: Floats) -> None:
        """Count into buckets, each the one whose middle is ``exp(bucket * BUCKET_WIDTH)``."""
        if not len(buckets):
            return
        buckets = np.clip(buckets, _LOWEST, _HIGHEST)
        lowest, highest = int(buckets.min()), int(buckets.max())
        if not self.counts:
            self.first = lowest
        if lowest < self.first:
            self.counts = array("d", bytes(8 * (self.first - lowest))) + self.counts
            self.first = lowest
        missing = highest + 1 - self.first - len(self.counts)
        if missing > 0:
            self.counts.extend([0.0] * missing)
        np.add.at(np.frombuffer(self.counts), buckets - self.first, weights)

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
