"""The engine may run more sequences than the latency target allows."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.expected import change_of_cap
from vllm_advisor.ceilings.advice.flags import set_cap
from vllm_advisor.ceilings.advice.words import milliseconds, percent, sequences, span
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.units import format_duration

__all__ = ["cap_above_latency_ceiling"]

_NO_CAP_HELPS = (
    "No --max-num-seqs is expected to meet this target: use faster GPUs or more of them an engine, less "
    "prefill beside decoding (a lower --max-num-batched-tokens), or a target within reach; more replicas or "
    "a lower cap only bring the time per output token nearer to it."
)
"""What to do where not even one sequence meets the latency target."""


def cap_above_latency_ceiling(case: Case, at: Thresholds) -> Advice | None:
    """Say so where the cap, or what was seen running where it is unknown, is above the ceiling."""
    cap, ceiling = case.cap_at_least, case.latency_ceiling_at_most
    if cap is None or ceiling is None or cap <= max(ceiling, case.max_num_seqs.recommended or 0):
        return None
    if case.queue_is_plainer_than_target:
        return None
    if case.latency.sequences is None:
        return _met_nowhere(case, cap) if _latency_is_the_cause(case, at) else None
    seen = (
        f"The cap is {_cap(case, cap)} and the {case.latency.statistic} time per output token reaches the "
        f"target of {format_duration(case.latency.slo_tpot_seconds)} at {sequences(ceiling)} "
        f"({case.latency.grade}, seen to {case.latency.observed_to}){_share_of_time(case)}."
    )
    wanted = case.cap_to_set or ceiling
    action = f"{set_cap(case, wanted)}. {change_of_cap(case, cap, wanted)}"
    return Advice(Code.CAP_ABOVE_LATENCY_CEILING, seen, action)


def _share_of_time(case: Case) -> str:
    bound = case.bound_time
    if not bound.busy_seconds:
        return ""
    late = percent(bound.ratio_or_zero(Bound.LATENCY))
    return f"; {late} of {span(bound.busy_seconds)} of busy time was over it"


def _latency_is_the_cause(case: Case, at: Thresholds) -> bool:
    """Whether tokens are late for concurrency: preempted requests wait in the middle of their answer."""
    bound = case.bound_time
    memory = bound.ratio_or_zero(Bound.MEMORY)
    return bound.busy_seconds >= at.observed_seconds and bound.ratio_or_zero(Bound.LATENCY) > memory


def _met_nowhere(case: Case, cap: int) -> Advice | None:
    at_most, wanted, late = case.latency_ceiling_at_most, case.cap_to_set, _late(case)
    if late is None:
        return None
    seen = (
        f"The cap is {_cap(case, cap)} and the {late} {span(case.bound_time.busy_seconds)} of busy time, "
        f"over the target of {format_duration(case.latency.slo_tpot_seconds)}."
    )
    if wanted is None or not at_most:
        return Advice(Code.CAP_ABOVE_LATENCY_CEILING, seen, _NO_CAP_HELPS)
    action = (
        f"{set_cap(case, wanted)}: the latency ceiling is not above {at_most} and may be lower, which a "
        "sweep would tell. Expect the time per output token to fall and more requests to wait at peaks."
    )
    return Advice(Code.CAP_ABOVE_LATENCY_CEILING, seen, action)


def _late(case: Case) -> str | None:
    """Say how late tokens were where fewest ran or, before a request was seen from end to end, all along."""
    least, occupancy = case.least_loaded, case.snapshot.occupancy
    if least is not None:
        return (
            f"{case.latency.statistic} time per output token was {milliseconds(least.tpot_seconds)} at "
            f"{sequences(least.concurrency)}, the fewest seen in"
        )
    if occupancy.tpot_mean_seconds is None:
        return None
    return (
        f"mean time per output token was {milliseconds(occupancy.tpot_mean_seconds)} with up to "
        f"{sequences(occupancy.greatest_running)} running all through"
    )


def _cap(case: Case, cap: int) -> str:
    return str(cap) if case.max_num_seqs.configured else f"unknown ({sequences(cap)} ran at once)"
