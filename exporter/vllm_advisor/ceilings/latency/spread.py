"""How far a quantile of requests' TPOT lies above the mean, at each concurrency.

Requests are shorter and longer than the stretches that were observed, and a mean over fewer tokens spreads wider.
The spread of stretches has a part that averages out over tokens (step noise, prefills of others) and a part that
lasts (context, slow swings); stretches of two lengths tell them apart:

    variance over n tokens = passing / n + lasting

The observed shape is widened by that rule to each length of request and mixed over their lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from vllm_advisor.evidence.latency.histogram import BUCKET_WIDTH, LogHistogram
from vllm_advisor.evidence.latency.snapshot import Floats, LatencyBins, LatencySnapshot

__all__ = ["Spread", "spread_at", "standard_error_factor"]

_GRID = np.arange(-40, 101) * BUCKET_WIDTH
"""Logarithms of TPOT over its mean, from half to seven times."""
_MIDDLES = (_GRID[1:] + _GRID[:-1]) / 2
_NEIGHBOURHOOD = 0.2
"""Standard deviation, in logarithm of concurrency, of the weights that pool neighbouring bins."""
_WIDEST_EXTRAPOLATION = 3.0
"""How much shorter than the observed stretches a typical request is believed to be, where scrapes are coarse."""
_TAIL = 0.003
_BISECTIONS = 16


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread at each concurrency.

    Args:
        ratio: the quantile over the mean, for requests as long as they are.
        unscaled_ratio: the same for the stretches as observed.
        deviation: relative standard deviation of a stretch.
        stretches: independent stretches that each rests on.
    """

    ratio: Floats
    unscaled_ratio: Floats
    deviation: Floats
    stretches: Floats


def spread_at(snapshot: LatencySnapshot, quantile: float | None) -> Spread:
    """Return the spread at each bin of the snapshot's stretches; a quantile of None stands for the mean."""
    short = _Pooled.of(snapshot.stretches, snapshot.stretches)
    if quantile is None:
        ones = np.ones_like(short.deviation)
        return Spread(ones, ones, short.deviation, short.stretches)
    factors = _widening(snapshot, short)
    ratio = short.quantile(quantile, factors)
    return Spread(ratio, short.quantile(quantile, np.ones_like(factors)), short.deviation, short.stretches)


def standard_error_factor(quantile: float | None) -> float:
    """Return the standard error of a sample quantile, in standard deviations over the root of the sample size.

    For the normal distribution: sqrt(q (1 - q)) / density at q; 1 for the mean.
    """
    if quantile is None:
        return 1.0
    normal = NormalDist()
    return float((quantile * (1 - quantile)) ** 0.5 / normal.pdf(normal.inv_cdf(quantile)))


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Relative distributions of stretches, pooled over the neighbourhood of each of some concurrencies."""

    cumulative: Floats
    mean: Floats
    variance: Floats
    inverse_tokens: Floats
    stretches: Floats

    @property
    def deviation(self) -> Floats:
        return np.sqrt(self.variance)

    @classmethod
    def of(cls, bins: LatencyBins, at: LatencyBins) -> _Pooled:
        distance = np.log(at.concurrency)[:, None] - np.log(bins.concurrency)[None, :]
        weights = np.exp(-0.5 * (distance / _NEIGHBOURHOOD) ** 2) * bins.stretches
        stretches = weights.sum(axis=1)
        weights /= np.maximum(stretches, 1e-300)[:, None]
        cumulative = weights @ _relative(bins)
        parts = np.diff(np.where(cumulative < _TAIL, 0.0, np.where(cumulative > 1 - _TAIL, 1.0, cumulative)))
        mean = parts @ _MIDDLES
        variance = parts @ _MIDDLES**2 - mean**2 - BUCKET_WIDTH**2 / 12
        floor = (BUCKET_WIDTH / 10) ** 2
        return cls(cumulative, mean, np.maximum(variance, floor), weights @ bins.inverse_tokens, stretches)

    def quantile(self, quantile: float, factors: Floats) -> Floats:
        """Solve for the value under which the mixture of widened distributions has the quantile.

        Args:
            quantile: the quantile asked for.
            factors: one row a concurrency, one column a length of request: how much wider it spreads.
        """
        centre = self.mean[:, None]
        shifted = centre - 0.5 * (factors**2 - 1) * self.variance[:, None]
        low, high = np.full(len(self.mean), 2 * _GRID[0]), np.full(len(self.mean), 2 * _GRID[-1])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            reached = self._at(centre + (middle[:, None] - shifted) / factors).mean(axis=1) >= quantile
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        solution: Floats = np.exp((low + high) / 2)
        return solution

    def _at(self, values: Floats) -> Floats:
        """Read each row's cumulative distribution, linear on the grid."""
        place = np.clip((values - _GRID[0]) / BUCKET_WIDTH, 0, len(_GRID) - 1.000001)
        index = place.astype(np.intp)
        rows = np.arange(len(self.cumulative))[:, None]
        left, right = self.cumulative[rows, index], self.cumulative[rows, index + 1]
        read: Floats = left + (place - index) * (right - left)
        return read


def _relative(bins: LatencyBins) -> Floats:
    """Return each bin's cumulative distribution of TPOT over its mean, on the grid."""
    shift = np.log(bins.tpot_seconds)
    rows = [_cumulative(held, _GRID + at) for held, at in zip(bins.histograms, shift, strict=True)]
    return np.array(rows).reshape(len(rows), len(_GRID))


def _cumulative(histogram: LogHistogram, at: Floats) -> Floats:
    counts: npt.NDArray[np.float64] = np.frombuffer(histogram.counts, dtype=np.float64)
    edges = (histogram.first + np.arange(len(counts) + 1) - 0.5) * BUCKET_WIDTH
    total = np.concatenate(([0.0], np.cumsum(counts)))
    read: Floats = np.interp(at, edges, total / total[-1])
    return read


def _widening(snapshot: LatencySnapshot, short: _Pooled) -> Floats:
    """Return how much wider each length of request spreads than a stretch, by concurrency and length."""
    passing = _passing_variance(snapshot, short)
    lasting = np.maximum(0.0, short.variance - passing * short.inverse_tokens)
    tokens = snapshot.request_tokens
    typical = float(np.exp(np.mean(np.log(tokens))))
    believed = np.minimum(1 / typical, _WIDEST_EXTRAPOLATION * short.inverse_tokens)
    inverse = believed[:, None] * (typical / tokens)[None, :]
    widened: Floats = np.sqrt((passing[:, None] * inverse + lasting[:, None]) / short.variance[:, None])
    return np.maximum(widened, 0.05)


def _passing_variance(snapshot: LatencySnapshot, short: _Pooled) -> Floats:
    """Return the variance times tokens that averages out, from stretches of two lengths where both are there."""
    most = short.variance / short.inverse_tokens
    if not len(snapshot.long_stretches.concurrency):
        return most
    long = _Pooled.of(snapshot.long_stretches, snapshot.stretches)
    shorter = short.inverse_tokens - long.inverse_tokens
    known = (long.stretches > 1.0) & (shorter > 0.15 * short.inverse_tokens)
    passing = (short.variance - long.variance) / np.where(known, shorter, 1.0)
    found: Floats = np.where(known, np.clip(passing, 0.0, most), most)
    return found
