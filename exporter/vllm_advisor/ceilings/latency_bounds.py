"""Between what the latency ceiling lies, known before enough was seen to say where."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.ceilings.latency import LatencyCeiling
from vllm_advisor.config import SloConfig
from vllm_advisor.evidence.load import Short
from vllm_advisor.evidence.occupancy import OccupancySnapshot

__all__ = ["LatencyBounds", "latency_bounds"]

_NEARLY_ALL = 0.99
_MEDIAN = 0.5


@dataclass(frozen=True, slots=True)
class LatencyBounds:
    """What the latency ceiling cannot be below and not above, in running sequences; None where unknown.

    ``at_most`` is 0 where not even one sequence would meet the target.
    """

    at_least: int | None = None
    at_most: int | None = None


def latency_bounds(
    latency: LatencyCeiling, occupancy: OccupancySnapshot, slo: SloConfig, *, observed_seconds: float
) -> LatencyBounds:
    """Return the ceiling itself where it is known, else what curve and occupancy say of it.

    Time per output token is a constant and a part that grows with concurrency. So a concurrency ``n`` that
    takes ``t`` seconds a token, over the target, puts the ceiling at ``n`` times the target over ``t``, or
    below; and where the tokens of nearly all time met the target, the median concurrency meets it.

    Args:
        latency: the ceiling as measured.
        occupancy: what every busy moment showed, shorter than a request too.
        slo: the target.
        observed_seconds: busy time below which occupancy says nothing.
    """
    if latency.sequences is not None:
        return LatencyBounds(latency.sequences, latency.sequences)
    seen_enough = occupancy.busy_seconds >= observed_seconds
    first = latency.least_loaded
    at_most = None
    if first is not None and first.tpot_seconds > slo.tpot_seconds:
        at_most = int(first.concurrency * slo.tpot_seconds / first.tpot_seconds)
    elif first is None and seen_enough:
        at_most = _never_met(occupancy, slo)
    if at_most is not None:
        return LatencyBounds(None, at_most)
    met = [latency.low, _always_met(occupancy, slo) if seen_enough else None]
    return LatencyBounds(max((one for one in met if one), default=None))


def _never_met(occupancy: OccupancySnapshot, slo: SloConfig) -> int | None:
    """Return the upper bound where all busy time was over the target, though not for want of memory."""
    late = sum(
        load.seconds
        for load in occupancy.loads
        if load.short is not Short.MEMORY and (load.tpot_seconds or 0.0) > slo.tpot_seconds
    )
    mean_seconds = occupancy.tpot_mean_seconds
    if (
        mean_seconds is None
        or mean_seconds <= slo.tpot_seconds
        or late < _NEARLY_ALL * occupancy.busy_seconds
    ):
        return None
    return int(occupancy.greatest_running * slo.tpot_seconds / mean_seconds)


def _always_met(occupancy: OccupancySnapshot, slo: SloConfig) -> int | None:
    """Return the median number of running sequences where the target's share of time met it."""
    quantile = _MEDIAN if isinstance(slo.quantile, str) else max(slo.quantile, _MEDIAN)
    seen = (occupancy.tpot_quantile_seconds(quantile), occupancy.tpot_mean_seconds)
    if any(one is None or one > slo.tpot_seconds for one in seen):
        return None
    return occupancy.running_quantile(_MEDIAN)
