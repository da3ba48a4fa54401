"""The latency ceiling of a measured sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency.curve import (
    CurvePoint,
    CurveSource,
    LatencyCeiling,
    crossing,
    fit_nondecreasing,
)
from vllm_advisor.config import SloConfig
from vllm_advisor.sources.sweep_file import Sweep, SweepLevel

__all__ = ["sweep_ceiling", "sweep_curve"]


def sweep_ceiling(sweep: Sweep, slo: SloConfig) -> LatencyCeiling:
    """Return the largest concurrency that meets the target, linear between measured levels, floored.

    Never beyond the last level: where all of them meet the target, the ceiling is unknown and ``low`` says
    how far it was met. Where the sweep lacks the target's quantile, the next higher one it has stands in, so
    that the ceiling errs to the safe side, and the grade is ``interpolated``.
    """
    statistic = _statistic_for(sweep, slo)
    points = sweep_curve(sweep, statistic) if statistic else ()
    if not points:
        return LatencyCeiling(None, Grade.NONE, None, None, slo.tpot_seconds, slo.statistic, None)
    met = [int(point.concurrency) for point in points if point.tpot_seconds <= slo.tpot_seconds]
    missed = [int(point.concurrency) for point in points if point.tpot_seconds > slo.tpot_seconds]
    sequences, grade = None, Grade.NONE
    if met and missed:
        sequences = min(math.floor(_crossing(points, slo.tpot_seconds) + 1e-9), missed[0] - 1)
        grade = Grade.MEASURED if statistic == slo.statistic else Grade.INTERPOLATED
    return LatencyCeiling(
        sequences=sequences,
        grade=grade,
        low=met[-1] if met else None,
        high=missed[0] - 1 if missed else None,
        slo_tpot_seconds=slo.tpot_seconds,
        statistic=slo.statistic,
        observed_to=int(points[-1].concurrency),
        curve=points,
    )


def sweep_curve(sweep: Sweep, statistic: str) -> tuple[CurvePoint, ...]:
    """Return the monotone curve through a sweep's levels at one statistic; levels without it are left out."""
    measured = _pooled([level for level in sweep.levels if statistic in level.tpot_seconds], statistic)
    fitted = fit_nondecreasing([tpot for _, tpot, _, _ in measured], [weight for *_, weight in measured])
    return tuple(
        CurvePoint(concurrency, tpot, throughput, weight, CurveSource.SWEEP)
        for (concurrency, _, throughput, weight), tpot in zip(measured, fitted, strict=True)
    )


def _pooled(levels: Sequence[SweepLevel], statistic: str) -> list[tuple[int, float, float | None, float]]:
    """Average repeats of one level, weighted by their requests."""
    pooled = []
    for concurrency in dict.fromkeys(level.concurrency for level in levels):
        repeats = [level for level in levels if level.concurrency == concurrency]
        weights = [float(level.requests or 1) for level in repeats]
        total = sum(weights)
        tpot = sum(w * r.tpot_seconds[statistic] for w, r in zip(weights, repeats, strict=True)) / total
        rates = [r.output_tokens_per_second for r in repeats if r.output_tokens_per_second is not None]
        pooled.append((concurrency, tpot, sum(rates) / len(rates) if rates else None, total))
    return pooled


def _crossing(points: Sequence[CurvePoint], slo_seconds: float) -> float:
    found = crossing([p.concurrency for p in points], [p.tpot_seconds for p in points], slo_seconds)
    return points[-1].concurrency if found is None else found


def _statistic_for(sweep: Sweep, slo: SloConfig) -> str | None:
    available = {statistic for level in sweep.levels for statistic in level.tpot_seconds}
    if slo.statistic in available or slo.statistic == "mean":
        return slo.statistic if slo.statistic in available else None
    asked = _quantile(slo.statistic)
    higher = [name for name in available if name != "mean" and _quantile(name) > asked]
    return min(higher, key=_quantile, default=None)


def _quantile(statistic: str) -> float:
    return float(statistic.removeprefix("p"))
