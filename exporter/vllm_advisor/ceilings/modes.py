"""Whether lengths have two modes: two kinds of requests in one deployment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.lengths_distribution import LengthDistribution

__all__ = ["Mode", "two_modes"]

_CELLS_PER_DOUBLING = 2
_VALLEY_RATIO = 0.25
"""How deep the valley between two peaks must be, over the lower peak."""
_FEWEST_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Mode:
    """One kind of requests."""

    lengths: LengthDistribution

    @property
    def requests(self) -> int:
        """How many there are."""
        return self.lengths.requests

    @property
    def median_tokens(self) -> float:
        """Their median length."""
        return self.lengths.quantile_tokens(0.5) or 0.0


def two_modes(
    lengths: LengthDistribution, *, apart_factor: float, least_share_ratio: float
) -> tuple[Mode, Mode] | None:
    """Return the short and the long requests where lengths have two clear modes, else None.

    The cut is the one that leaves the greatest variance of the logarithm between both sides (Otsu 1979). It
    counts where the medians are far enough apart, neither side is a mere tail, and the histogram has a valley
    at the cut between two peaks.

    Args:
        lengths: prompt plus output tokens.
        apart_factor: least ratio of the medians.
        least_share_ratio: least share of the requests on either side.
    """
    if lengths.requests < _FEWEST_REQUESTS:
        return None
    cells = (np.log2(np.maximum(lengths.values_tokens, 1.0)) * _CELLS_PER_DOUBLING).astype(np.intp)
    histogram = np.bincount(cells, weights=lengths.counts).astype(np.float64)
    cut = _best_cut(histogram)
    if not _has_valley(histogram, cut):
        return None
    short, long = (
        Mode(LengthDistribution(np.where(side, lengths.counts, 0))) for side in (cells < cut, cells >= cut)
    )
    if min(short.requests, long.requests) < least_share_ratio * lengths.requests:
        return None
    return (short, long) if long.median_tokens >= apart_factor * short.median_tokens else None


def _best_cut(histogram: NDArray[np.float64]) -> int:
    """Return the first cell of the upper side."""
    below = np.cumsum(histogram)[:-1]
    above = histogram.sum() - below
    moments = np.cumsum(histogram * np.arange(len(histogram)))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = moments[:-1] / below - (moments[-1] - moments[:-1]) / above
        between = np.nan_to_num(below * above * apart**2)
    return int(np.argmax(between)) + 1


def _has_valley(histogram: NDArray[np.float64], cut: int) -> bool:
    lower_peak, upper_peak = int(np.argmax(histogram[:cut])), cut + int(np.argmax(histogram[cut:]))
    valley = histogram[lower_peak : upper_peak + 1].min()
    return bool(valley <= _VALLEY_RATIO * min(histogram[lower_peak], histogram[upper_peak]))
