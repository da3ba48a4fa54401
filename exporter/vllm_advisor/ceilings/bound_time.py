"""Where busy time goes, five ways: what bound the engines, and for which share of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from vllm_advisor.evidence.load import Load, Short
from vllm_advisor.evidence.occupancy import OccupancySnapshot

__all__ = ["Bound", "BoundTime", "bound_time"]

_BELOW_CAP_RATIO = 0.05
"""Sequences that just ended are off the gauge while those that follow are not on it yet: one at least."""


class Bound(StrEnum):
    """What binds; the first that holds, in this order."""

    MEMORY = "memory"
    """Requests waited for room in the KV pool, or were preempted for want of it."""
    LATENCY = "latency"
    """Time per output token was over the target, whatever the cap and the queue."""
    CAP = "cap"
    """Requests waited, and as many ran as --max-num-seqs allows."""
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - tokens of text
    """Requests waited below the cap with room in the pool: all that is left is the step's token budget."""
    NOT_LOADED = "not_loaded"
    """None waited and the target was met."""


@dataclass(frozen=True, slots=True)
class BoundTime:
    """Shares of busy time, which add up to 1.

    Args:
        busy_seconds: engine-seconds with something running or waiting; without any, every share is None.
        seconds: of these, by what bound them.
    """

    busy_seconds: float
    seconds: Mapping[Bound, float]

    def ratio(self, bound: Bound) -> float | None:
        """Return the share of busy time that was bound so."""
        return self.seconds.get(bound, 0.0) / self.busy_seconds if self.busy_seconds else None

    def ratio_or_zero(self, bound: Bound) -> float:
        """Return the same, 0 where nothing was ever busy."""
        return self.ratio(bound) or 0.0


def bound_time(
    occupancy: OccupancySnapshot,
    *,
    cap: int | None,
    slo_tpot_seconds: float | None,
    slo_is_assumed: bool = False,
) -> BoundTime:
    """Divide busy time by what bound the engines.

    vLLM's scheduler admits a waiting request unless the cap is reached, blocks are lacking or the step's
    token budget is spent (``v1/core/sched/scheduler.py:schedule``), so what is neither of the first two is
    the third.

    Args:
        occupancy: what was seen.
        cap: --max-num-seqs, configured or inferred; without it no time counts as bound by it.
        slo_tpot_seconds: the latency target, None for batch work.
        slo_is_assumed: whether it is a default; requests that wait at the cap then count before it.
    """
    seconds: dict[Bound, float] = {}
    for load in occupancy.loads:
        bound = _bound(load, cap, slo_tpot_seconds, slo_is_assumed=slo_is_assumed)
        seconds[bound] = seconds.get(bound, 0.0) + load.seconds
    return BoundTime(sum(seconds.values()), seconds)


def _bound(load: Load, cap: int | None, slo_tpot_seconds: float | None, *, slo_is_assumed: bool) -> Bound:
    if load.short is Short.MEMORY:
        return Bound.MEMORY
    at_cap = load.short is Short.SLOTS and cap is not None and load.running >= _nearly(cap)
    if at_cap and slo_is_assumed:
        return Bound.CAP
    if slo_tpot_seconds is not None and (load.tpot_seconds or 0.0) > slo_tpot_seconds:
        return Bound.LATENCY
    if load.short is Short.NOTHING:
        return Bound.NOT_LOADED
    return Bound.CAP if at_cap else Bound.TOKEN_BUDGET


def _nearly(cap: int) -> int:
    return cap - max(1, math.floor(_BELOW_CAP_RATIO * cap))
