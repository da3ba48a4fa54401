"""The latency ceiling of live traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency.curve import (
    CurvePoint,
    CurveSource,
    LatencyCeiling,
    crossing,
    fit_nondecreasing,
)
from vllm_advisor.ceilings.latency.pooled import nearness
from vllm_advisor.ceilings.latency.spread import Spread, spread_at_bins, standard_error_factor
from vllm_advisor.config import SloConfig
from vllm_advisor.evidence.latency.snapshot import Floats, LatencyBins, LatencySnapshot

__all__ = ["latency_ceiling"]

_ENOUGH_STRETCHES = 4.0
"""Independent request-scale stretches that each side of a measured crossing rests on."""
_BEYOND = 1.5
"""How far past what was seen an extrapolated ceiling may lie (design page)."""
_SPAN = 2.0
"""How many fold concurrency must have varied for its slope to carry an extrapolation."""
_DEVIATIONS = 1.64
"""Half-width of the interval in standard errors: 90%."""
_LEANING_RATIO = 0.005
"""How far under the target the crossing is read: a ceiling too high costs more than one too low."""
_ENOUGH_BEYOND = 2.0
"""Independent stretches near a measured crossing that lie beyond the target's quantile."""
_MOST_TOO_HIGH = 1.05
"""A measured ceiling over its interval's lower end: a number too high takes a service down."""
_MODEL_ERROR_RATIO = 0.005
"""Standard error of TPOT at a fixed concurrency, beside sampling.

This and the next are set so that intervals hold the truth of simulated engines as often as they say
(``docs/latency.md``).
"""
_SPREAD_ERROR_RATIO = 0.15
"""The same of a quantile's distance from the mean."""
_MOST_OFF_RATIO = 0.3
"""How far a bin's TPOT is moved at most to the mix of all traffic."""


def latency_ceiling(snapshot: LatencySnapshot, slo: SloConfig) -> LatencyCeiling:
    """Return the largest concurrency whose TPOT still meets the target, from what production showed.

    The curve is the mean over request-scale stretches, raised to the target's quantile by the spread around
    it (`spread`), and made monotone. Its concurrency counts running sequences, as ``--max-num-seqs`` does, so
    the ceiling is the crossing rounded down. ``measured`` needs enough stretches on both sides and beyond
    the target's quantile, and an interval whose lower end is near.
    """
    unknown = LatencyCeiling(None, Grade.NONE, None, None, slo.tpot_seconds, slo.statistic, None)
    bins = snapshot.stretches
    if bins.stretches.sum() < 1.0:
        return unknown
    quantile = None if isinstance(slo.quantile, str) else slo.quantile
    curve = _curve(bins, spread_at_bins(snapshot, quantile), quantile)
    ceiling = replace(unknown, observed_to=math.floor(curve.observed_to), curve=_points(bins, curve))
    return _placed(ceiling, curve)


@dataclass(frozen=True, slots=True)
class _Curve:
    """The fitted curve: mean TPOT, TPOT at the target's statistic, its relative error, and its support.

    ``beyond``: independent stretches of about that concurrency that lie beyond the statistic.
    """

    concurrency: Floats
    mean: Floats
    tpot: Floats
    error: Floats
    stretches: Floats
    beyond: Floats

    @property
    def observed_from(self) -> float:
        """The lowest concurrency that no more than was run for at least one stretch."""
        from_below = np.cumsum(self.stretches)
        return float(self.concurrency[np.flatnonzero(from_below >= min(1.0, from_below[-1]))[0]])

    @property
    def observed_to(self) -> float:
        """The highest concurrency that no less than was run for at least one stretch."""
        from_above = np.cumsum(self.stretches[::-1])[::-1]
        return float(self.concurrency[np.flatnonzero(from_above >= min(1.0, from_above[0]))[-1]])

    def crossing(self, slo_seconds: float, deviations: float = 0.0) -> float | None:
        """Return where the curve, raised by some standard errors, leaves the target; 0 if it starts above."""
        tpot = fit_nondecreasing(
            (self.tpot * (1 + deviations * self.error)).tolist(), self.stretches.tolist()
        )
        return 0.0 if tpot[0] > slo_seconds else crossing(self.concurrency.tolist(), tpot, slo_seconds)


def _curve(bins: LatencyBins, spread: Spread, quantile: float | None) -> _Curve:
    weights = bins.stretches.tolist()
    mean = np.array(fit_nondecreasing(_at_one_mix(bins, spread.mix_slope).tolist(), weights))
    tpot = np.array(fit_nondecreasing((mean * spread.ratio).tolist(), weights))
    sampling = (
        standard_error_factor(quantile) * spread.deviation / np.sqrt(np.maximum(spread.stretches, 0.25))
    )
    of_spread = _SPREAD_ERROR_RATIO * np.maximum(0.0, 1 - 1 / spread.ratio)
    beyond = spread.stretches * (0.5 if quantile is None else 1 - quantile)
    error = np.sqrt(sampling**2 + of_spread**2 + _MODEL_ERROR_RATIO**2)
    return _Curve(bins.concurrency, mean, tpot, error, bins.stretches, beyond)


def _at_one_mix(bins: LatencyBins, slope: Floats) -> Floats:
    """Return mean TPOT by bin as it would be if each had the mix of all traffic.

    Many sequences run where much has just arrived or long ones stay, so crowded bins hold more prefill and
    context than a cap at that concurrency would see: over time, every request brings its own.
    """
    prefill_ratio, pool_share = np.average(
        np.stack([bins.prefill_ratio, bins.mix[:, 1]]), axis=1, weights=bins.tokens
    )
    typical = np.stack([prefill_ratio / bins.tpot_seconds, np.full(len(bins.tokens), pool_share)], axis=1)
    off = ((bins.mix - typical) * slope).sum(axis=1)
    at_one: Floats = bins.tpot_seconds * (1 - np.clip(off, -_MOST_OFF_RATIO, _MOST_OFF_RATIO))
    return at_one


def _points(bins: LatencyBins, curve: _Curve) -> tuple[CurvePoint, ...]:
    columns = (bins.concurrency, curve.tpot, _throughput(bins, curve.mean), bins.tokens, curve.error)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        CurvePoint(concurrency, seconds, throughput, tokens, CurveSource.TRAFFIC, error)
        for concurrency, seconds, throughput, tokens, error in rows
    )


def _throughput(bins: LatencyBins, mean_tpot_seconds: Floats) -> Floats:
    """Return output tokens a second: concurrency over TPOT, times the part of it that engines make of that.

    Running sequences do not decode while they prefill. A bin's own seconds are too few to read throughput
    off, so that part is pooled over neighbouring bins.
    """
    near = nearness(bins, bins.concurrency)
    decoding = bins.concurrency / mean_tpot_seconds
    made = bins.generation_tokens
    expected = bins.seconds * decoding
    throughput: Floats = decoding * (near @ made) / (near @ expected)
    return throughput


def _placed(ceiling: LatencyCeiling, curve: _Curve) -> LatencyCeiling:
    slo = ceiling.slo_tpot_seconds
    low = curve.crossing(slo, _DEVIATIONS)
    high = curve.crossing(slo, -_DEVIATIONS)
    bounded = replace(
        ceiling,
        low=math.floor(curve.observed_to if low is None else low) or None,
        high=None if high is None else math.floor(high),
    )
    found = curve.crossing(slo * (1 - _LEANING_RATIO))
    if found is None or found < 1.0:
        return _extrapolated(bounded, curve, upwards=found is None)
    return replace(
        bounded, sequences=math.floor(found), grade=_grade(curve, found, bounded.low, bounded.high)
    )


def _grade(curve: _Curve, found: float, low: int | None, high: int | None) -> Grade:
    above = curve.stretches[curve.concurrency > found].sum()
    below = curve.stretches[(curve.concurrency <= found) & (curve.concurrency >= found / _SPAN)].sum()
    beyond = np.interp(found, curve.concurrency, curve.beyond)
    enough = min(above, below) >= _ENOUGH_STRETCHES and beyond >= _ENOUGH_BEYOND
    near = low is not None and high is not None and math.floor(found) <= _MOST_TOO_HIGH * low
    return Grade.MEASURED if enough and near else Grade.INTERPOLATED


def _extrapolated(ceiling: LatencyCeiling, curve: _Curve, *, upwards: bool) -> LatencyCeiling:
    """Continue the curve's near end in a straight line, at most 1.5 times beyond what was seen."""
    concurrency, weights = curve.concurrency, curve.stretches
    end = curve.observed_to if upwards else curve.observed_from
    near = (concurrency >= end / _SPAN) if upwards else (concurrency <= end * _SPAN)
    if not upwards:
        ceiling = replace(ceiling, low=None, high=math.floor(end))
    if weights[near].sum() < 2 * _ENOUGH_STRETCHES or concurrency[near].max() < 1.4 * concurrency[near].min():
        return ceiling
    slope, start = np.polyfit(concurrency[near], curve.tpot[near], 1, w=np.sqrt(weights[near]))
    if slope <= 0:
        return ceiling
    found = float((ceiling.slo_tpot_seconds - start) / slope)
    reach = (end, _BEYOND * end) if upwards else (end / _BEYOND, end)
    if not reach[0] <= found <= reach[1] or math.floor(found) < 1:
        return ceiling
    return replace(ceiling, sequences=math.floor(found), grade=Grade.EXTRAPOLATED)
