"""Traffic alone does not reach the latency ceiling; a sweep would."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import span
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.units import format_duration

__all__ = ["sweep_needed"]


def sweep_needed(case: Case, at: Thresholds) -> Advice | None:
    """Say so where concurrency never crossed the target in traffic, and up to where a sweep is worth it."""
    latency, busy_seconds = case.latency, case.snapshot.occupancy.busy_seconds
    if case.is_batch or busy_seconds < at.observed_seconds:
        return None
    if latency.grade not in {Grade.NONE, Grade.EXTRAPOLATED} or latency.observed_to is None:
        return None
    met = latency.low is not None
    seen = (
        f"In {span(busy_seconds)} of busy time concurrency reached {latency.observed_to}, where the target "
        f"of {format_duration(latency.slo_tpot_seconds)} was {'still' if met else 'never'} met."
    )
    first, last = (latency.observed_to, _worth_it(case)) if met else (1, latency.observed_to)
    action = (
        f"Measure with `vllm-advisor sweep URL` from {first} to {last} concurrent requests, on a replica "
        "without users, and name the file as sweep; expect a measured latency ceiling."
    )
    return Advice(Code.SWEEP_NEEDED, seen, action)


def _worth_it(case: Case) -> int:
    """Return the highest concurrency that could ever be recommended: what memory holds."""
    observed = case.latency.observed_to or 1
    return max(2 * observed, case.memory.sequences or 0)
