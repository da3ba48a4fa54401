"""How long requests are, from the engines' own coarse histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vllm_advisor.evidence.intervals import LengthCounts

__all__ = ["BucketedLengths"]

_BEYOND_LAST_BOUND = 2.5
"""Where the unbounded bucket is taken to end, over its lower bound: one step of the 1-2-5 series."""


class BucketedLengths:
    """Tokens by bucket; at most as many buckets as the engine's pages have."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[tuple[float, float], float] = {}

    def observe(self, lengths: LengthCounts, rows: npt.NDArray[np.bool_]) -> None:
        """Take in the new observations of some intervals."""
        lower = 0.0
        for bound, count in zip(lengths.bounds, lengths.summed(rows).tolist(), strict=True):
            if count:
                bucket = (lower, bound)
                self._buckets[bucket] = self._buckets.get(bucket, 0.0) + count
            lower = bound

    def quantiles(self, count: int, *, above: float = 0.0) -> npt.NDArray[np.float64]:
        """Return tokens at evenly spaced quantiles, log-linear within buckets; empty where nothing is known.

        Args:
            count: how many.
            above: leave out buckets of requests up to this many tokens.
        """
        buckets = sorted((low, high, weight) for (low, high), weight in self._buckets.items() if high > above)
        if not buckets:
            return np.empty(0)
        edges: list[float] = []
        cumulative: list[float] = []
        passed = 0.0
        for low, high, weight in buckets:
            edges += [max(1.0, low), high if math.isfinite(high) else _BEYOND_LAST_BOUND * max(1.0, low)]
            cumulative += [passed, passed + weight]
            passed += weight
        at = (np.arange(count) + 0.5) / count * passed
        tokens: npt.NDArray[np.float64] = np.exp(np.interp(at, cumulative, np.log(edges)))
        return tokens

    def merge(self, other: BucketedLengths) -> None:
        """Add what another holds."""
        for bucket, weight in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0.0) + weight

    def age(self, factor: float) -> None:
        """Weaken all that is held."""
        self._buckets = {bucket: weight * factor for bucket, weight in self._buckets.items()}

    def state(self) -> list[Any]:
        """Return the content as plain JSON values, an unbounded bucket's upper bound as None."""
        return [
            [low, high if math.isfinite(high) else None, weight]
            for (low, high), weight in sorted(self._buckets.items())
        ]

    @classmethod
    def from_state(cls, state: list[Any]) -> BucketedLengths:
        """Rebuild what `state` gave."""
        rebuilt = cls()
        for low, high, weight in state:
            rebuilt._buckets[float(low), math.inf if high is None else float(high)] = float(weight)
        return rebuilt
