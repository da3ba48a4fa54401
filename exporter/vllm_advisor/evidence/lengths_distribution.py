"""Token lengths as log-linear counts: exact below 256 tokens, within 0.4% above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BUCKETS", "LONGEST_TOKENS", "VALUES_TOKENS", "LengthDistribution", "buckets_of"]

_STEPS = 128
"""Buckets in one doubling: half of one is 1/256 of its lower edge, 0.39%."""
_DOUBLINGS = 19

LONGEST_TOKENS = 2 * _STEPS * 2**_DOUBLINGS - 1
"""The longest length kept apart; anything longer is no length of a request."""
BUCKETS = _STEPS * (_DOUBLINGS + 2)


def buckets_of(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket of each length; lengths over `LONGEST_TOKENS` count as that."""
    held = np.minimum(np.maximum(tokens, 0), LONGEST_TOKENS)
    bits = np.frexp(held.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - 8, 0)
    return np.asarray(shift * _STEPS + (held >> shift), dtype=np.int64)


def _values_tokens() -> NDArray[np.float64]:
    buckets = np.arange(BUCKETS)
    shift = np.maximum(buckets // _STEPS - 1, 0)
    lowest = (buckets - shift * _STEPS) << shift
    middle: NDArray[np.float64] = lowest + ((1 << shift) - 1) / 2
    middle.setflags(write=False)
    return middle


VALUES_TOKENS = _values_tokens()
"""The length a bucket stands for: the middle of the lengths it holds."""


@dataclass(frozen=True, slots=True)
class LengthDistribution:
    """How many requests had each length.

    Args:
        counts: requests in each of the `BUCKETS` buckets.
    """

    counts: NDArray[np.int64]

    @property
    def values_tokens(self) -> NDArray[np.float64]:
        """The length each bucket stands for."""
        return VALUES_TOKENS

    @property
    def requests(self) -> int:
        """Number of requests."""
        return int(self.counts.sum())

    def quantile_tokens(self, quantile: float) -> float | None:
        """Return a quantile, within 0.4% of `numpy.quantile` on the raw lengths; None without requests.

        Interpolates between the two order statistics next to it (Hyndman and Fan 1996, definition 7).
        """
        if not self.requests:
            return None
        at = quantile * (self.requests - 1)
        below = int(at)
        ranks = np.array([below, min(below + 1, self.requests - 1)])
        low, high = VALUES_TOKENS[np.searchsorted(np.cumsum(self.counts), ranks, side="right")]
        return float(low + (high - low) * (at - below))

    def over(self, limit_tokens: float) -> int:
        """Return how many requests were longer than a limit."""
        return int(self.counts[limit_tokens < VALUES_TOKENS].sum())

    def over_ratio(self, limit_tokens: float) -> float | None:
        """Return the share of requests longer than a limit, None without requests."""
        return self.over(limit_tokens) / self.requests if self.requests else None
