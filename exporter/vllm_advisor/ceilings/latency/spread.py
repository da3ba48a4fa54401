"""How far a quantile of requests' TPOT lies above the mean, at each concurrency.

Stretches of time show a spread; requests spread by another measure, on four counts:

- They are shorter and longer than a stretch, and a mean over fewer tokens spreads wider. Of the variance, a
  part passes (step noise) and averages out over tokens, a part lasts (slow swings). Stretches of two lengths
  tell them apart: ``variance over n tokens = passing / n + lasting``.
- Prefills of others slow a request's tokens down. How many arrive is the traffic's own whim, while at a fixed
  concurrency a request only starts where another ends. So the part of the variance that goes with the prefill
  ratio is taken out, and put back as a fixed concurrency would have it: over n tokens with N sequences, n N /
  (mean output) prompts come by, each of random size, dispersed like the renewal process that outputs make.
- The context of the sequences beside it comes and goes with them. So the part of the variance that goes with
  the share of the KV pool they hold is there at a fixed concurrency too, and fades over a request's duration.
- Outputs differ in length; the observed shape is widened to each of some lengths, and these are mixed.

Where scrapes are further apart than a request is long, a stretch is no shorter than a scrape interval. Its
own spread is then taken for the request's: what passes within an interval cannot be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from vllm_advisor.ceilings.latency.pooled import PooledStretches
from vllm_advisor.evidence.latency.snapshot import Floats, LatencySnapshot

__all__ = ["Spread", "spread_at_bins", "standard_error_factor"]

_LEAST_WIDENING = 0.05
_AT_FIXED_CONCURRENCY = 0.8
"""Part of the stretches' own variance (less prefill and context) that is left where concurrency is held.

In traffic it moves within a stretch, which no page shows. Set on simulated engines, held against others and
against a real engine's clients (``docs/latency.md``).
"""
_LENGTHS_DIFFER = 1.15
"""How many times more tokens a long stretch must have than a short one for the two to be told apart."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread at each bin's concurrency.

    Args:
        ratio: the quantile over the mean, of requests.
        deviation: relative standard deviation of a stretch.
        stretches: how many independent ones it rests on.
        mix_slope: relative rise of TPOT with each part of the mix, one row a bin.
    """

    ratio: Floats
    deviation: Floats
    stretches: Floats
    mix_slope: Floats


def spread_at_bins(snapshot: LatencySnapshot, quantile: float | None) -> Spread:
    """Return the spread at each bin of the snapshot's stretches; a quantile of None stands for the mean."""
    concurrency = snapshot.stretches.concurrency
    stretches = PooledStretches.of(snapshot.stretches, concurrency)
    ratio = np.ones_like(concurrency)
    if quantile is not None:
        ratio = stretches.quantile_ratio(quantile, _widening(snapshot, stretches))
    return Spread(ratio, np.sqrt(stretches.variance), stretches.stretches, stretches.mix_slope)


def standard_error_factor(quantile: float | None) -> float:
    """Return a sample quantile's standard error, in standard deviations over the root of the sample size.

    For the normal distribution: sqrt(q (1 - q)) / density at q; 1 for the mean.
    """
    if quantile is None:
        return 1.0
    normal = NormalDist()
    return float((quantile * (1 - quantile)) ** 0.5 / normal.pdf(normal.inv_cdf(quantile)))


def _widening(snapshot: LatencySnapshot, stretches: PooledStretches) -> Floats:
    """Return how much wider requests spread than stretches, by concurrency and by length of request."""
    tokens = snapshot.request_tokens[None, :]
    typical = float(np.exp(np.mean(np.log(tokens))))
    inverse = np.minimum(1 / typical, stretches.inverse_tokens)[:, None] * typical / tokens
    passing = _passing(snapshot, stretches)
    lasting = np.maximum(0.0, stretches.own_variance - passing * stretches.inverse_tokens)
    own = _AT_FIXED_CONCURRENCY * (passing[:, None] * inverse + lasting[:, None])
    duration = float(snapshot.request_tokens.mean())
    faded = _averaged(tokens / duration) / _averaged(1 / (duration * stretches.inverse_tokens))[:, None]
    context = stretches.context_variance[:, None] * faded
    variance = own + context + _prefill(snapshot, stretches)[:, None] / tokens
    widening: Floats = np.sqrt(variance / stretches.variance[:, None])
    return np.maximum(widening, _LEAST_WIDENING)


def _averaged(durations: Floats) -> Floats:
    """Return what is left of a variance in the mean over a time, where correlation fades as exp(-time)."""
    left: Floats = 2 * (1 / durations - (1 - np.exp(-durations)) / durations**2)
    return left


def _passing(snapshot: LatencySnapshot, stretches: PooledStretches) -> Floats:
    """Return the part of the own variance that averages out, times tokens; all of it where not known."""
    whole = stretches.own_variance / stretches.inverse_tokens
    if not len(snapshot.long_stretches.concurrency):
        return whole
    longer = PooledStretches.of(snapshot.long_stretches, snapshot.stretches.concurrency)
    differ = (longer.stretches > 1.0) & (stretches.inverse_tokens > _LENGTHS_DIFFER * longer.inverse_tokens)
    between = np.where(differ, stretches.inverse_tokens - longer.inverse_tokens, 1.0)
    passing = np.clip((stretches.own_variance - longer.own_variance) / between, 0.0, whole)
    return np.where(differ, passing, whole)


def _prefill(snapshot: LatencySnapshot, stretches: PooledStretches) -> Floats:
    """Return the variance that prefills make at a fixed concurrency, times tokens."""
    prompts, tokens = snapshot.prompt_tokens, snapshot.request_tokens
    if not len(prompts):
        return stretches.prefill_variance / stretches.inverse_tokens
    mean = tokens.mean()
    dispersion = min(1.0, 0.5 + 0.5 * float(tokens.var() / mean**2))
    square = prompts.var() + dispersion * prompts.mean() ** 2
    slope = stretches.mix_slope[:, 0] / snapshot.stretches.tpot_seconds
    variance: Floats = slope**2 * square / (mean * snapshot.stretches.concurrency)
    return variance
