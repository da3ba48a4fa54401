"""Traffic and a sweep in one answer."""

from __future__ import annotations

from dataclasses import replace

from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency.curve import CurvePoint, LatencyCeiling, fit_nondecreasing

__all__ = ["combined_ceiling"]


def combined_ceiling(traffic: LatencyCeiling, sweep: LatencyCeiling | None) -> LatencyCeiling:
    """Return the better graded of two ceilings, with the points of both on one nondecreasing curve.

    Traffic wins at the same grade: it has the mix of lengths that production has, and it is of today.
    """
    if sweep is None:
        return traffic
    ranks = list(Grade)
    best = min((traffic, sweep), key=lambda ceiling: ranks.index(ceiling.grade))
    observed = [ceiling.observed_to for ceiling in (traffic, sweep) if ceiling.observed_to is not None]
    return replace(best, observed_to=max(observed, default=None), curve=_together(traffic.curve, sweep.curve))


def _together(*curves: tuple[CurvePoint, ...]) -> tuple[CurvePoint, ...]:
    """Fit one curve through several, each counting alike whatever its weights are of."""
    shares = [(point, point.weight / sum(one.weight for one in curve)) for curve in curves for point in curve]
    shares.sort(key=lambda pair: pair[0].concurrency)
    fitted = fit_nondecreasing([point.tpot_seconds for point, _ in shares], [share for _, share in shares])
    return tuple(replace(point, tpot_seconds=tpot) for (point, _), tpot in zip(shares, fitted, strict=True))
