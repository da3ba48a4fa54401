"""Requests wait because the KV pool is full."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.memory_options import memory_options
from vllm_advisor.ceilings.advice.words import percent, span
from vllm_advisor.ceilings.bound_time import Bound

__all__ = ["memory_binds"]


def memory_binds(case: Case, at: Thresholds) -> Advice | None:
    """Say so where a share of busy time was short of room in the pool."""
    bound, occupancy = case.bound_time, case.snapshot.occupancy
    ratio = bound.ratio_or_zero(Bound.MEMORY)
    if bound.busy_seconds < at.observed_seconds or ratio < at.memory_bound_ratio:
        return None
    used = case.kv_used_p99_ratio
    pool = f" with the KV pool {percent(used)} in use (0.99 quantile)" if used is not None else ""
    seen = (
        f"Requests waited for room for {percent(ratio)} of {span(bound.busy_seconds)} of busy time{pool}, "
        f"and {occupancy.preemptions:.0f} were preempted."
    )
    return Advice(Code.MEMORY_BINDS, seen, _action(case))


def _action(case: Case) -> str:
    options = memory_options(case)
    seen = case.snapshot.occupancy.greatest_running
    room = case.memory.expected_sequences
    if room and seen and room < seen:
        options = (f"--max-num-seqs {room}, which the observed lengths fit", *options)
    chosen = "; ".join(options)
    return f"Add replicas or GPUs, or give sequences room: {chosen}. Expect preemptions and waiting to end."
