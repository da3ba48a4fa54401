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
_LEAST_MIX_SPREAD = 0.01
"""Standard deviation of a part of the mix, over its mean, below which no slope can be told."""
_ALIKE = 0.02
"""Added to the parts' variances, relatively, so that two parts that always move together share the effect."""
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
        mix_slope: relative rise of TPOT with each part of the mix, one row a concurrency.
        prefill_variance: the part of the variance that goes with the prefill ratio.
        context_variance: the part that goes with the share of the KV pool that a sequence holds.
    """

    cumulative: Floats
    mean: Floats
    variance: Floats
    inverse_tokens: Floats
    stretches: Floats
    mix_slope: Floats
    prefill_variance: Floats
    context_variance: Floats

    @classmethod
    def of(cls, bins: LatencyBins, at_concurrency: Floats) -> PooledStretches:
        """Pool bins around some concurrencies."""
        weights = nearness(bins, at_concurrency) * bins.stretches
        stretches = weights.sum(axis=1)
        weights /= np.maximum(stretches, 1e-300)[:, None]
        cumulative = weights @ _relative(bins)
        mean, variance = _moments(cumulative)
        near = weights @ bins.mix_covariance.reshape(-1, 4)
        mix_variance, mix_covariance = near[:, [0, 3]], near[:, 1]
        told = mix_variance > (_LEAST_MIX_SPREAD * (weights @ bins.mix)) ** 2
        with_tpot = weights @ (bins.mix_tpot_covariance_seconds / bins.tpot_seconds[:, None])
        slope = _slopes(
            np.where(told, mix_variance, 1.0),
            np.where(told.all(axis=1), mix_covariance, 0.0),
            np.where(told, with_tpot, 0.0),
        )
        slope *= _certainty((slope * with_tpot).sum(axis=1) / variance, stretches)[:, None]
        explained = slope[:, 0] ** 2 * mix_variance[:, 0] + 2 * slope[:, 0] * slope[:, 1] * mix_covariance
        prefill = np.clip(explained, 0.0, _MOST_EXPLAINED * variance)
        context = np.clip(
            slope[:, 1] ** 2 * mix_variance[:, 1], 0.0, np.maximum(0.0, _MOST_EXPLAINED * variance - prefill)
        )
        inverse_tokens = weights @ bins.inverse_tokens
        return cls(cumulative, mean, variance, inverse_tokens, stretches, slope, prefill, context)

    @property
    def own_variance(self) -> Floats:
        """The variance that does not go with the mix."""
        return self.variance - self.prefill_variance - self.context_variance

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


def _slopes(variance: Floats, covariance: Floats, with_tpot: Floats) -> Floats:
    """Return the least-squares slopes of TPOT on the two parts of the mix, none of them negative."""
    variance = (1 + _ALIKE) * variance
    alone = with_tpot / variance
    determinant = variance[:, 0] * variance[:, 1] - covariance**2
    both = (variance[:, ::-1] * with_tpot - covariance[:, None] * with_tpot[:, ::-1]) / determinant[:, None]
    slopes = np.where(both[:, ::-1] < 0, alone, both)
    return np.maximum(0.0, slopes)


def _certainty(explained_ratio: Floats, stretches: Floats) -> Floats:
    """Return how much of two slopes to believe: what they explain beyond what chance would, 0 to 1.

    Two slopes fitted to n samples explain some 2 / n of the variance by chance; shrunk as James and Stein do.
    """
    explained = np.clip(explained_ratio, 1e-9, _MOST_EXPLAINED)
    by_chance = 2 / np.maximum(stretches, 1e-9) * (1 - explained) / explained
    certainty: Floats = np.maximum(0.0, 1 - by_chance)
    return certainty


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
