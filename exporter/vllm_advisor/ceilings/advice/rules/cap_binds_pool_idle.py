"""The cap holds requests back although the KV pool has room."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.expected import change_of_cap
from vllm_advisor.ceilings.advice.flags import set_cap
from vllm_advisor.ceilings.advice.words import percent, span
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.sources.engine_facts import CapSource
from vllm_advisor.units import format_duration

__all__ = ["cap_binds_pool_idle"]

_STEP = 1.5
"""How far past what was seen a cap may be tried (design page)."""


def cap_binds_pool_idle(case: Case, at: Thresholds) -> Advice | None:
    """Say so where requests wait at the cap, the pool is idle and the target is met.

    Only below the latency ceiling is that unclaimed throughput; at it, one engine does all it can.
    """
    cap, at_cap, used = case.max_num_seqs.configured, case.steps_at_cap_ratio, case.kv_used_p99_ratio
    if cap is None or at_cap is None or used is None:
        return None
    bound = case.bound_time
    if bound.busy_seconds < at.observed_seconds or at_cap < at.steps_at_cap_ratio:
        return None
    if used >= at.pool_idle_ratio or not bound.ratio_or_zero(Bound.CAP):
        return None
    if bound.ratio_or_zero(Bound.LATENCY) > bound.ratio_or_zero(Bound.CAP) or _above_ceiling(case, cap):
        return None
    inferred = ", which was inferred," if case.max_num_seqs.source is CapSource.INFERRED else ""
    seen = (
        f"{percent(at_cap)} of engine steps in {span(bound.busy_seconds)} of busy time ran at the cap of "
        f"{cap}{inferred} with requests waiting, while the KV pool was at most {percent(used)} in use (0.99 "
        "quantile)."
    )
    return Advice(Code.CAP_BINDS_POOL_IDLE, seen, _action(case, cap))


def _above_ceiling(case: Case, cap: int) -> bool:
    """Whether the cap already is above the latency ceiling, beyond that one's own uncertainty."""
    ceiling = case.latency_ceiling_at_most
    if case.queue_is_plainer_than_target:
        return False
    return ceiling is not None and cap > max(ceiling, case.latency.high or ceiling)


def _action(case: Case, cap: int) -> str:
    ceiling, recommended = case.latency_ceiling_at_most, case.max_num_seqs.recommended
    memory = case.memory.sequences
    if case.queue_is_plainer_than_target and ceiling is not None and cap >= ceiling:
        return (
            f"Give slo.tpot what users need: {format_duration(case.latency.slo_tpot_seconds)} is "
            f"a default, and only it speaks against a --max-num-seqs above {cap}. Expect fewer requests "
            "waiting with a higher cap."
        )
    if ceiling is not None and cap >= ceiling * (1 - case.deployment.stability.tolerance_ratio):
        return (
            f"Add replicas: the cap is already at the latency ceiling of {ceiling}, beyond which the target "
            "is missed; expect waiting to fall with each replica."
        )
    if recommended is not None and recommended > cap:
        return f"{set_cap(case, recommended)}. {change_of_cap(case, cap, recommended)}"
    if recommended is not None or (memory is not None and memory <= cap):
        return (
            f"Lower --max-model-len first: at {case.length_tokens} tokens a sequence memory is only sure to "
            f"hold {memory}, though observed lengths leave room for "
            f"{case.memory.expected_sequences or 'more'}."
        )
    step = _step(case, cap)
    return (
        f"{set_cap(case, step)}, and raise it further in such steps while the time per output token meets "
        f"its target. {change_of_cap(case, cap, step)}"
    )


def _step(case: Case, cap: int) -> int:
    step, room = max(cap + 1, int(cap * _STEP)), case.memory.sequences
    return step if room is None else min(step, room)
