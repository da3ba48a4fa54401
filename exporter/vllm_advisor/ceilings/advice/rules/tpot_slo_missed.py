"""Users wait longer for each token than the target says."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.flags import typed_cap
from vllm_advisor.ceilings.advice.words import milliseconds, over_target, percent, sequences, span
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.units import format_duration

__all__ = ["tpot_slo_missed"]

_REQUEST_SCALE_QUANTILE = 0.99


def tpot_slo_missed(case: Case, at: Thresholds) -> Advice | None:
    """Say so while the last minutes' time per output token is over the target, and what is to blame."""
    slo_seconds, (statistic, observed) = case.deployment.slo.tpot_seconds, _observed(case)
    if case.is_batch or observed is None or observed <= slo_seconds * (1 + at.tpot_missed_ratio):
        return None
    recent = case.snapshot.recent_occupancy
    if recent.busy_seconds < at.observed_seconds:
        return None
    seen = (
        f"The {statistic} time per output token was {milliseconds(observed)} over the "
        f"last {span(min(recent.window_seconds, recent.observed_seconds))}, "
        f"{over_target(observed, slo_seconds)} the target of {format_duration(slo_seconds)}."
    )
    return Advice(Code.TPOT_SLO_MISSED, seen, _action(case))


def _observed(case: Case) -> tuple[str, float | None]:
    """Return the target's statistic now: of requests where that is kept, else of the time between pages.

    Before any request was seen from end to end it is the mean, which the upper quantiles are not below.
    """
    slo, recent = case.deployment.slo, case.snapshot.recent_occupancy
    if isinstance(slo.quantile, str):
        return slo.statistic, recent.tpot_mean_seconds
    if slo.quantile < _REQUEST_SCALE_QUANTILE:
        return slo.statistic, recent.tpot_quantile_seconds(slo.quantile)
    of_requests = case.snapshot.latency.tpot_recent_p99_seconds
    return ("mean", recent.tpot_mean_seconds) if of_requests is None else (slo.statistic, of_requests)


def _action(case: Case) -> str:
    cap, ceiling = case.cap_at_least, case.latency_ceiling_at_most
    memory = case.bound_time.ratio_or_zero(Bound.MEMORY)
    if memory > case.bound_time.ratio_or_zero(Bound.LATENCY):
        return (
            f"Memory is to blame: {percent(memory)} of busy time was short of it, and preempted requests "
            "wait in the middle of their answer; see memory_binds, and expect both to end together."
        )
    if case.queue_is_plainer_than_target:
        return (
            "The target is a default: give slo.tpot what users need. Requests wait at the cap, and a target "
            "that nobody set is no reason to lower it; see cap_binds_pool_idle, and expect advice that fits."
        )
    if ceiling == 0:
        return (
            "No cap is to blame, for none would meet the target; see cap_above_latency_ceiling for what may."
        )
    if ceiling is None or cap is None:
        return (
            "Whether concurrency is to blame is not known yet, for neither is the latency ceiling: measure a "
            "sweep, and look for longer prompts or another load on the GPU."
        )
    if cap > ceiling:
        return f"{_blamed(case, cap, ceiling)}; {_remedy(case, cap, ceiling)}."
    return (
        "The cap is not to blame, for it is no higher than the latency ceiling: look for longer prompts, a "
        "lower --max-num-batched-tokens for less prefill beside decoding, or another load on the GPU."
    )


def _blamed(case: Case, cap: int, ceiling: int) -> str:
    allowed = f"where the target allows {ceiling} at most"
    if case.max_num_seqs.configured is None:
        return f"Concurrency is to blame: {sequences(cap)} ran at once {allowed}, and the cap is unknown"
    return f"--max-num-seqs is to blame: it lets {cap} run {allowed}"


def _remedy(case: Case, cap: int, ceiling: int) -> str:
    """Name the flag where it would lower the cap, and promise the target only where it was seen to be met."""
    wanted = case.cap_to_set
    if wanted is None or wanted >= cap:
        return "add replicas, and expect fewer sequences on each and the time per output token to fall"
    told = f"set {typed_cap(case, wanted)} or add replicas"
    if case.latency.sequences is None:
        return f"{told}; expect the time per output token to fall, to where was not observed yet"
    met = "the target to be met" if wanted <= ceiling else "the time per output token to come near the target"
    return f"{told}, and expect {met}"
