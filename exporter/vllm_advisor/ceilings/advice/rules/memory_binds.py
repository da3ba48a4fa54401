"""Requests wait because the KV pool is full."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.flags import typed_cap
from vllm_advisor.ceilings.advice.memory_options import memory_options
from vllm_advisor.ceilings.advice.words import percent, span, tokens
from vllm_advisor.ceilings.bound_time import Bound

__all__ = ["memory_binds"]


def memory_binds(case: Case, at: Thresholds) -> Advice | None:
    """Say so where a share of busy time was short of room in the pool."""
    bound, preempted = case.bound_time, case.snapshot.occupancy.preemptions
    ratio = bound.ratio_or_zero(Bound.MEMORY)
    if bound.busy_seconds < at.observed_seconds or ratio < at.memory_bound_ratio:
        return None
    used = case.kv_used_p99_ratio
    pool = f" with the KV pool {percent(used)} in use (0.99 quantile)" if used is not None else ""
    seen = (
        f"Requests waited for room for {percent(ratio)} of {span(bound.busy_seconds)} of busy time{pool}"
        f"{f', and {tokens(preempted)} were preempted' if preempted else ''}."
    )
    return Advice(Code.MEMORY_BINDS, seen, _action(case))


def _action(case: Case) -> str:
    options = memory_options(case)
    wanted, seen = case.cap_to_set, case.snapshot.occupancy.greatest_running
    if wanted is not None and seen and wanted < seen:
        options = (f"{typed_cap(case, wanted)}, so that fewer run at once", *options)
    chosen = "; ".join(options)
    ended = "preemptions and waiting" if case.snapshot.occupancy.preemptions else "waiting for room"
    return f"Add replicas or GPUs, or give sequences room: {chosen}. Expect {ended} to end."
