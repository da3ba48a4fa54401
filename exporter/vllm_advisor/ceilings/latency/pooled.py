"""How stretches of about one concurrency spread around their mean TPOT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vllm_advisor.evidence.latency.histogram import BUCKET_WIDTH, LogHistogram
from vllm_advisor.evidence.latency.snapshot import Floats, LatencyBins

__all__ = ["PooledStretches", "nearness"]

_GRID = np.arange(-40, 101) * BUCKET_WIDTH
"""Logarithms of TPOT over its mean, from half to seven times."""
_MIDDLES = (_GRID[1:] + _GRID[:-1]) / 2
_NEIGHBOURHOOD = 0.2
"""Standard deviation, in logarithm of concurrency, of the weights that pool neighbouring bins."""
_TAIL = 0.003
"""Part at either end that no variance is taken from: a stall of seconds is no spread."""
_LEAST_VARIANCE = (BUCKET_WIDTH / 10) ** 2
_MOST_EXPLAINED = 0.9
_LEAST_PREFILL_SPREAD = 0.01
"""Standard deviation of the prefill ratio, over its mean, below which no slope can be told."""
_BISECTIONS = 14


@dataclass(frozen=True, slots=True)
class PooledStretches:
    """Stretches pooled over the neighbourhood of each of some concurrencies; relative to their bin's mean.

    Args:
        cumulative: cumulative distribution of the logarithm on the grid, one row a concurrency.
        mean: of the logarithm.
        variance: of the logarithm.
        inverse_tokens: mean of 1 / tokens that a sequence made in a stretch.
        stretches: how many independent ones.
        prefill_slope: relative rise of TPOT per prompt token prefilled per decoded token.
        prefill_variance: the part of the variance that goes with the prefill ratio.
    """

    cumulative: Floats
    mean: Floats
    variance: Floats
    inverse_tokens: Floats
    stretches: Floats
    prefill_slope: Floats
    prefill_variance: Floats

    @classmethod
    def of(cls, bins: LatencyBins, at_concurrency: Floats) -> PooledStretches:
        """Pool bins around some concurrencies."""
        weights = nearness(bins, at_concurrency) * bins.stretches
        stretches = weights.sum(axis=1)
        weights /= np.maximum(stretches, 1e-300)[:, None]
        cumulative = weights @ _relative(bins)
        mean, variance = _moments(cumulative)
        covariance = np.maximum(0.0, weights @ (bins.prefill_covariance_seconds / bins.tpot_seconds))
        varied = weights @ bins.prefill_variance
        told = varied > (_LEAST_PREFILL_SPREAD * (weights @ bins.prefill_ratio)) ** 2
        slope = np.where(told, covariance / np.maximum(varied, 1e-12), 0.0)
        explained = np.minimum(slope * covariance, _MOST_EXPLAINED * variance)
        return cls(cumulative, mean, variance, weights @ bins.inverse_tokens, stretches, slope, explained)

    @property
    def own_variance(self) -> Floats:
        """The variance that does not go with the prefill ratio."""
        return self.variance - self.prefill_variance

    def quantile_ratio(self, quantile: float, widening: Floats) -> Floats:
        """Return the quantile over the mean of a mixture of this spread, each part widened around the mean.

        Args:
            quantile: the quantile asked for.
            widening: how much wider each part of the mixture spreads: a row a concurrency, a column a part.
        """
        centre = self.mean[:, None]
        shifted = centre - 0.5 * (widening**2 - 1) * self.variance[:, None]
        low, high = np.full(len(self.mean), 2 * _GRID[0]), np.full(len(self.mean), 2 * _GRID[-1])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            reached = self._read(centre + (middle[:, None] - shifted) / widening).mean(axis=1) >= quantile
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        solution: Floats = np.exp((low + high) / 2)
        return solution

    def _read(self, values: Floats) -> Floats:
        """Read each row's cumulative distribution, linear on the grid."""
        place = np.clip((values - _GRID[0]) / BUCKET_WIDTH, 0, len(_GRID) - 1.000001)
        index = place.astype(np.intp)
        rows = np.arange(len(self.cumulative))[:, None]
        left, right = self.cumulative[rows, index], self.cumulative[rows, index + 1]
        read: Floats = left + (place - index) * (right - left)
        return read


def nearness(bins: LatencyBins, at_concurrency: Floats) -> Floats:
    """Return how much each bin counts around some concurrencies, from 0 to 1; one row a concurrency."""
    at, held = np.maximum(at_concurrency, 0.5), np.maximum(bins.concurrency, 0.5)
    distance = np.log(at)[:, None] - np.log(held)
    near: Floats = np.exp(-0.5 * (distance / _NEIGHBOURHOOD) ** 2)
    return near


def _moments(cumulative: Floats) -> tuple[Floats, Floats]:
    trimmed = np.where(cumulative < _TAIL, 0.0, np.where(cumulative > 1 - _TAIL, 1.0, cumulative))
    parts = np.diff(trimmed, axis=1)
    mean = parts @ _MIDDLES
    variance = parts @ _MIDDLES**2 - mean**2 - BUCKET_WIDTH**2 / 12
    return mean, np.maximum(variance, _LEAST_VARIANCE)


def _relative(bins: LatencyBins) -> Floats:
    """Return each bin's cumulative distribution of TPOT over its mean, on the grid."""
    shifts = np.log(bins.tpot_seconds).tolist()
    rows = [_cumulative(held, _GRID + shift) for held, shift in zip(bins.histograms, shifts, strict=True)]
    return np.array(rows).reshape(len(rows), len(_GRID))


def _cumulative(histogram: LogHistogram, at: Floats) -> Floats:
    counts: npt.NDArray[np.float64] = np.frombuffer(histogram.counts, dtype=np.float64)
    edges = (histogram.first - 0.5 + np.arange(len(counts) + 1)) * BUCKET_WIDTH
    total = np.zeros(len(counts) + 1)
    np.cumsum(counts, out=total[1:])
    read: Floats = np.interp(at, edges, total / total[-1])
    return read
