"""Some number is missing, or rests on little."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.context_limit import requests_needed
from vllm_advisor.ceilings.grade import Grade

__all__ = ["evidence_thin"]


def evidence_thin(case: Case, _at: Thresholds) -> Advice | None:
    """Say which evidence is missing, and what would bring it."""
    missing = [
        problem for problem in (_lengths(case), _latency(case), _batch(case), _memory(case)) if problem
    ]
    if not missing:
        return None
    return Advice(
        Code.EVIDENCE_THIN,
        f"The evidence does not carry every number yet: {'; '.join(missing)}.",
        "Wait for more traffic, add access logs or a model config, or measure a sweep; expect the grades to "
        "rise.",
    )


def _lengths(case: Case) -> str | None:
    flag, quantile = case.max_model_len, case.deployment.context.quantile
    if flag.grade is Grade.MEASURED:
        return None
    requests, needed = case.snapshot.context.requests, requests_needed(quantile)
    if requests < needed:
        without = case.snapshot.context.without_usage
        more = f" ({without:,} more were logged without token counts)" if without else ""
        return f"{requests:,} requests of the {needed:,} that the {quantile:g} quantile needs{more}"
    return case.context.reason


def _latency(case: Case) -> str | None:
    if case.is_batch or case.latency.grade is not Grade.NONE:
        return None
    if case.latency.observed_to is not None:
        return f"concurrency up to {case.latency.observed_to}, which does not cross the latency target"
    if not case.snapshot.engines:
        return "no engine was scraped, so that nothing is known of concurrency"
    if case.snapshot.occupancy.tpot_mean_seconds is None:
        return "no decoding was seen, so that nothing is known of concurrency"
    return "no decoding was seen for as long as a request takes, without preemptions"


def _batch(case: Case) -> str | None:
    """Say where batch work is not taken up to what memory is expected to hold."""
    seen, cap, room = case.latency.observed_to, case.max_num_seqs, case.memory.expected_sequences
    if not case.is_batch or cap.grade is Grade.MEASURED:
        return None
    if seen is None:
        return "no concurrency, beyond which no --max-num-seqs is given"
    if cap.recommended is None or room is None or not seen < cap.recommended < room:
        return None
    return (
        f"concurrency up to {seen} of the {room} sequences that memory is expected to hold, so that "
        "--max-num-seqs is given up to 1.5 times what was seen"
    )


def _memory(case: Case) -> str | None:
    if case.memory.sequences is not None:
        return None
    return case.memory.reason or "no size of the KV pool"
