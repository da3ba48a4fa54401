"""What the engine's prompt and output histograms say of prompt plus output tokens.

Their joint distribution is unknown. Whatever it is, a quantile of the sum lies between bounds that the two
distributions alone give (Makarov 1981; Rueschendorf 1982; Frank, Nelsen and Schweizer 1987). Here in their
counted form: both histograms have one observation for each finished request, so with ``N`` requests, ``P(x)``
of them with at most ``x`` prompt tokens and ``O(y)`` with at most ``y`` output tokens,

    P(x) + O(y) - N  <=  requests with prompt + output <= x + y  <=  P(x) + O(y)

At least ``P(x) + O(y) - N`` requests are within both, and whoever has at most ``x + y`` in all is within
either: this holds for any dependence, and for the requests themselves, not only for what they are drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.lengths_distribution import BUCKETS, LengthDistribution, buckets_of

__all__ = ["LengthBounds", "LengthHistogram", "Marginal"]


@dataclass(frozen=True, slots=True)
class LengthHistogram:
    """Observations of one length in one bucket layout.

    Args:
        edges_tokens: finite upper bounds, ascending.
        counts: observations in each bucket, and last those above every edge.
    """

    edges_tokens: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Marginal:
    """One length's counts, put together from histograms whose layouts may differ.

    Args:
        edges_tokens: every edge of every layout, ascending.
        surely: observations that are at or below each edge.
        possibly: observations that may be at or below each edge.
        requests: all observations.
    """

    edges_tokens: NDArray[np.float64]
    surely: NDArray[np.int64]
    possibly: NDArray[np.int64]
    requests: int

    @classmethod
    def of(cls, histograms: Iterable[LengthHistogram], requests: int) -> Marginal:
        """Put histograms together; what they lack of ``requests`` observations may be anywhere."""
        histograms = list(histograms)
        edges = np.unique(np.concatenate([histogram.edges_tokens for histogram in histograms]))
        surely, possibly = np.zeros(edges.size), np.full(edges.size, float(requests))
        for histogram in histograms:
            own, cumulative = np.array(histogram.edges_tokens), np.cumsum([0.0, *histogram.counts])
            surely += cumulative[np.searchsorted(own, edges, side="right")]
            possibly += cumulative[np.searchsorted(own, edges, side="left") + 1] - cumulative[-1]
        return cls(edges, np.rint(surely).astype(np.int64), np.rint(possibly).astype(np.int64), requests)

    def tokens_at(self, ratios: NDArray[np.float64], longest_tokens: float) -> NDArray[np.float64]:
        """Estimate quantiles, log-linearly within a bucket; the last one ends at ``longest_tokens``."""
        edges = np.concatenate([[0.0], self.edges_tokens, [longest_tokens]])
        heights = np.concatenate([[0.0], (self.surely + self.possibly) / 2, [self.requests]])
        strictly = heights / self.requests + np.arange(heights.size) * 1e-12
        return np.asarray(np.expm1(np.interp(ratios, strictly, np.log1p(edges))), np.float64)


@dataclass(frozen=True, slots=True)
class LengthBounds:
    """What the two histograms say together.

    Args:
        prompt: prompt tokens of every request.
        output: output tokens of the same requests.
        limit_tokens: prompt plus output of no request is over it; None where that is not known.
    """

    prompt: Marginal
    output: Marginal
    limit_tokens: int | None = None

    def quantile_tokens(self, quantile: float) -> tuple[int, int | None]:
        """Return between what a quantile of the sum lies; the upper bound is None where there is none."""
        at = quantile * (self.prompt.requests - 1)
        return self._at_least(math.floor(at) + 1), self._at_most(math.ceil(at) + 1)

    def estimates(self) -> tuple[LengthDistribution, LengthDistribution, LengthDistribution]:
        """Estimate the distributions of sum, prompt and output, as if prompt and output were independent."""
        ratios, weights = _strata()
        prompt, output = (
            marginal.tokens_at(ratios, self._longest_tokens(marginal))
            for marginal in (self.prompt, self.output)
        )
        total = np.add.outer(prompt, output).ravel()
        if self.limit_tokens is not None:
            total = np.minimum(total, self.limit_tokens)
        both = np.multiply.outer(weights, weights).ravel()
        return self._spread(total, both), self._spread(prompt, weights), self._spread(output, weights)

    def _at_least(self, rank: int) -> int:
        """Return a lower bound of the ``rank``-th shortest sum: all others have more than ``x`` and ``y``."""
        prompt, most_prompt = _with_zero(self.prompt.edges_tokens, self.prompt.possibly)
        output, most_output = _with_zero(self.output.edges_tokens, self.output.possibly)
        allowed = np.add.outer(most_prompt, most_output) < rank
        return int((np.add.outer(prompt, output) * allowed).max())

    def _at_most(self, rank: int) -> int | None:
        """Return an upper bound of the ``rank``-th shortest sum: so many have at most ``x`` and ``y``."""
        enough = np.add.outer(self.prompt.surely, self.output.surely) >= rank + self.prompt.requests
        sums = np.add.outer(self.prompt.edges_tokens, self.output.edges_tokens)[enough]
        found = [int(sums.min())] if sums.size else []
        return min(found + ([self.limit_tokens] if self.limit_tokens is not None else []), default=None)

    def _longest_tokens(self, marginal: Marginal) -> float:
        edge = float(marginal.edges_tokens[-1])
        return 2 * edge if self.limit_tokens is None else max(edge, float(self.limit_tokens))

    def _spread(self, tokens: NDArray[np.float64], weights: NDArray[np.float64]) -> LengthDistribution:
        """Return whole counts in proportion to weights, as many as there are requests."""
        buckets = buckets_of(np.rint(tokens).astype(np.int64))
        shares = np.cumsum(np.bincount(buckets, weights, minlength=BUCKETS))
        reached = np.rint(shares / shares[-1] * self.prompt.requests).astype(np.int64)
        return LengthDistribution(np.diff(reached, prepend=0))


def _with_zero(
    edges: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the least that is longer than each edge, and first 0, which nothing is below."""
    return np.concatenate([[0.0], np.floor(edges) + 1]), np.concatenate([[0], counts])


def _strata() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut 0 to 1 into cells that grow thin towards 1; return their middles and widths."""
    edges = np.concatenate([np.linspace(0, 0.99, 100), 1 - np.geomspace(0.009, 1e-6, 60), [1.0]])
    return (edges[1:] + edges[:-1]) / 2, np.diff(edges)
