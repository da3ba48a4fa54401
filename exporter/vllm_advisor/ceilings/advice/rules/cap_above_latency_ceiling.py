"""The engine may run more sequences than the latency target allows."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.expected import change_of_cap
from vllm_advisor.ceilings.advice.words import milliseconds, percent, span
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.ceilings.recommended_form import cap_flags, padding_note
from vllm_advisor.units import format_duration

__all__ = ["cap_above_latency_ceiling"]


def cap_above_latency_ceiling(case: Case, at: Thresholds) -> Advice | None:
    """Say so where the cap, or what was seen running where it is unknown, is above the ceiling."""
    cap, ceiling = case.cap_at_least, case.latency_ceiling_at_most
    recommended = case.max_num_seqs.recommended
    if cap is None or ceiling is None or cap <= max(ceiling, min(recommended or 0, case.latency.high or 0)):
        return None
    if case.latency.sequences is None:
        return _met_nowhere(case, cap, ceiling) if _latency_is_the_cause(case, at) else None
    seen = (
        f"The cap is {_cap(case, cap)} and the {case.latency.statistic} time per output token reaches the "
        f"target of {format_duration(case.latency.slo_tpot_seconds)} at {ceiling} sequences "
        f"({case.latency.grade}, seen to {case.latency.observed_to}); "
        f"{percent(case.bound_time.ratio_or_zero(Bound.LATENCY))} of {span(case.bound_time.busy_seconds)} "
        "busy time was over it."
    )
    wanted = min(ceiling, recommended or ceiling)
    flags = cap_flags(wanted, case.snapshot.facts.vllm_version)
    return Advice(
        Code.CAP_ABOVE_LATENCY_CEILING,
        seen,
        f"Set {flags}{padding_note(wanted)}. {change_of_cap(case, cap, wanted)}",
    )


def _latency_is_the_cause(case: Case, at: Thresholds) -> bool:
    """Whether tokens are late for concurrency: preempted requests wait in the middle of their answer."""
    bound = case.bound_time
    memory = bound.ratio_or_zero(Bound.MEMORY)
    return bound.busy_seconds >= at.observed_seconds and bound.ratio_or_zero(Bound.LATENCY) > memory


def _met_nowhere(case: Case, cap: int, ceiling: int) -> Advice:
    lowest = min(case.latency.curve, key=lambda point: point.concurrency)
    seen = (
        f"The cap is {_cap(case, cap)} and the {case.latency.statistic} time per output token was "
        f"{milliseconds(lowest.tpot_seconds)} at {lowest.concurrency:.0f} sequences, the fewest seen in "
        f"{span(case.bound_time.busy_seconds)} of busy time, over the target of "
        f"{format_duration(case.latency.slo_tpot_seconds)}."
    )
    action = (
        f"Lower --max-num-seqs to {ceiling}, which the ceiling cannot be above, or measure a sweep for the "
        "number; expect the time per output token to fall and more requests to wait at peaks."
    )
    return Advice(Code.CAP_ABOVE_LATENCY_CEILING, seen, action)


def _cap(case: Case, cap: int) -> str:
    return str(cap) if case.max_num_seqs.configured else f"unknown, {cap} sequences were seen running,"
