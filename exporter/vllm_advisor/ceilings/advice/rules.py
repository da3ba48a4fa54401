"""One function a code: None, or the advice with its two sentences."""

from __future__ import annotations

from collections.abc import Callable

from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.thresholds import Thresholds
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.units import format_duration

__all__ = ["RULES", "advise"]

Rule = Callable[[Case, Thresholds], Advice | None]


def cap_binds_pool_idle(case: Case, at: Thresholds) -> Advice | None:
    """The cap holds requests back although memory and latency would allow more."""
    cap, at_cap, used = case.max_num_seqs.configured, case.steps_at_cap_ratio, case.kv_used_p99_ratio
    if cap is None or at_cap is None or used is None or not case.snapshot.occupancy.waiting_seconds:
        return None
    if at_cap < at.steps_at_cap_ratio or used >= at.pool_idle_ratio:
        return None
    ceiling = case.latency.sequences
    if ceiling is not None and ceiling <= cap:
        return None
    seen = (
        f"{at_cap:.0%} of engine steps ran at the cap of {cap} with requests waiting, while the KV pool was at "
        f"most {used:.0%} in use (0.99 quantile)."
    )
    return Advice(Code.CAP_BINDS_POOL_IDLE, seen, _raise_cap(case, cap))


def cap_above_latency_ceiling(case: Case, _at: Thresholds) -> Advice | None:
    """The engine may run more sequences than the latency target allows."""
    cap, latency = case.max_num_seqs.configured, case.latency
    if cap is None or latency.sequences is None or cap <= latency.sequences or _is_batch(case):
        return None
    seen = (
        f"The cap is {cap} and the {latency.statistic} time per output token reaches the target of "
        f"{format_duration(latency.slo_tpot_seconds)} at {latency.sequences} sequences ({latency.grade})."
    )
    return Advice(Code.CAP_ABOVE_LATENCY_CEILING, seen, f"Set --max-num-seqs {latency.sequences}.")


def cap_above_memory_ceiling(case: Case, _at: Thresholds) -> Advice | None:
    """The engine may admit more whole-length sequences than the KV pool holds."""
    cap, memory = case.max_num_seqs.configured, case.memory
    if cap is None or memory.sequences is None or cap <= memory.sequences or _is_batch(case):
        return None
    length = case.max_model_len.recommended or case.max_model_len.configured
    seen = f"The cap is {cap} and the KV pool holds {memory.sequences} sequences of {length:,} tokens."
    action = (
        f"Set --max-num-seqs {min(memory.sequences, case.latency.sequences or memory.sequences)}, or expect "
        "preemptions when many requests are long at once."
    )
    return Advice(Code.CAP_ABOVE_MEMORY_CEILING, seen, action)


def memory_binds(case: Case, at: Thresholds) -> Advice | None:
    """Requests wait because the KV pool is full."""
    seen = case.snapshot.occupancy
    if not seen.busy_seconds or seen.memory_seconds < at.memory_waiting_ratio * seen.busy_seconds:
        return None
    sentence = (
        f"Requests waited on a full KV pool for {seen.memory_seconds / seen.busy_seconds:.0%} of busy time, with "
        f"{seen.preemptions:.0f} preemptions."
    )
    action = "Lower --max-model-len or --max-num-seqs, use an FP8 KV cache, or add GPUs or replicas."
    return Advice(Code.MEMORY_BINDS, sentence, action)


def max_model_len_oversized(case: Case, at: Thresholds) -> Advice | None:
    """The configured limit is far above what the traffic needs."""
    recommended, configured = case.max_model_len.recommended, case.max_model_len.configured
    if recommended is None or configured is None or configured < at.oversized_factor * recommended:
        return None
    quantile = case.deployment.context.quantile
    seen = (
        f"--max-model-len is {configured:,}, {configured / recommended:.0f} times the {recommended:,} that the "
        f"{quantile:g} quantile of {case.snapshot.context.requests:,} requests needs with its margin."
    )
    return Advice(Code.MAX_MODEL_LEN_OVERSIZED, seen, f"Set --max-model-len {recommended}.")


def evidence_thin(case: Case, _at: Thresholds) -> Advice | None:
    """Some number is missing, or rests on little."""
    missing = []
    if case.max_model_len.grade is not Grade.MEASURED:
        missing.append(
            f"{case.snapshot.context.requests:,} requests for the {case.deployment.context.quantile:g} quantile"
        )
    if case.latency.grade is Grade.NONE and not _is_batch(case):
        reached = case.latency.observed_to
        missing.append(f"concurrency up to {reached or 0}, which does not reach the target's crossing")
    if case.memory.sequences is None:
        missing.append("no size of the KV pool")
    if not missing:
        return None
    return Advice(
        Code.EVIDENCE_THIN,
        f"The evidence so far is {' and '.join(missing)}.",
        "Wait for more traffic, add access logs, or measure a sweep.",
    )


def evidence_stale(case: Case, at: Thresholds) -> Advice | None:
    """Nothing has been observed for a while."""
    last = case.snapshot.last_observation_seconds
    if last is None or case.snapshot.now_seconds - last < at.stale_seconds:
        return None
    age_seconds = case.snapshot.now_seconds - last
    return Advice(
        Code.EVIDENCE_STALE,
        f"The newest page or log line is {age_seconds:.0f} s old.",
        "Check that the engines are up and that the advisor reaches them.",
    )


RULES: tuple[Rule, ...] = (
    cap_binds_pool_idle,
    cap_above_latency_ceiling,
    cap_above_memory_ceiling,
    memory_binds,
    max_model_len_oversized,
    evidence_thin,
    evidence_stale,
)


def advise(case: Case, thresholds: Thresholds | None = None) -> tuple[Advice, ...]:
    """Return all advice that a case calls for, in the order of `RULES`."""
    at = thresholds or Thresholds()
    return tuple(advice for rule in RULES if (advice := rule(case, at)) is not None)


def _is_batch(case: Case) -> bool:
    return case.deployment.workload == "batch"


def _raise_cap(case: Case, cap: int) -> str:
    recommended = case.max_num_seqs.recommended
    if recommended is not None and recommended > cap:
        return f"Set --max-num-seqs {recommended}."
    return "Raise --max-num-seqs step by step while the time per output token meets its target."
