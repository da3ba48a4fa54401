"""Traffic and a sweep in one answer."""

from __future__ import annotations

from dataclasses import replace

from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency.curve import LatencyCeiling

__all__ = ["combined_ceiling"]


def combined_ceiling(traffic: LatencyCeiling, sweep: LatencyCeiling | None) -> LatencyCeiling:
    """Return the better founded of two ceilings, traffic first, with the points of both curves.

    Traffic wins at the same grade: it has the mix of lengths that production has, and it is of today.
    """
    if sweep is None:
        return traffic
    ranks = list(Grade)
    best = min((traffic, sweep), key=lambda ceiling: ranks.index(ceiling.grade))
    observed = [ceiling.observed_to for ceiling in (traffic, sweep) if ceiling.observed_to is not None]
    curve = sorted((*traffic.curve, *sweep.curve), key=lambda point: point.concurrency)
    return replace(best, observed_to=max(observed, default=None), curve=tuple(curve))
