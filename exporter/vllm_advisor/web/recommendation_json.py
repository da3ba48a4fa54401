"""The JSON of a recommendation (design page, "JSON")."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vllm_advisor.ceilings.advice import Advice
from vllm_advisor.ceilings.advice.case import Flag
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.ceilings.recommended_form import cap_values
from vllm_advisor.evidence.deployment import EngineSnapshot

__all__ = ["document", "flag_values", "recommendation_json", "vllm_args"]


def document(recommendations: list[Recommendation]) -> dict[str, Any]:
    """Return the whole answer of ``/api/v1/recommendations`` and ``replay --json``."""
    return {"recommendations": [recommendation_json(one) for one in recommendations]}


def vllm_args(recommendation: Recommendation) -> str:
    """Return the recommended flags as they are typed."""
    return " ".join(f"{flag} {value}" for flag, value in flag_values(recommendation).items())


def flag_values(recommendation: Recommendation) -> dict[str, int]:
    """Return the recommended flags by name, in the form that the engines' version knows."""
    length, cap = recommendation.max_model_len.recommended, recommendation.max_num_seqs.recommended
    flags = {} if length is None else {"--max-model-len": length}
    return flags | ({} if cap is None else cap_values(cap, recommendation.snapshot.facts.vllm_version))


def recommendation_json(recommendation: Recommendation) -> dict[str, Any]:
    """Return one deployment's recommendation as plain JSON values."""
    deployment, snapshot = recommendation.deployment, recommendation.snapshot
    return {
        "deployment": deployment.name,
        "workload": deployment.workload,
        "model_name": snapshot.model_name,
        "flags": {
            "max_model_len": _flag(recommendation.max_model_len),
            "max_num_seqs": _flag(recommendation.max_num_seqs)
            | {"configured_source": recommendation.max_num_seqs.source},
        },
        "vllm_args": vllm_args(recommendation),
        "binding": recommendation.binding,
        "ceilings": {"memory": _memory(recommendation), "latency": _latency(recommendation)},
        "context": _context(recommendation),
        "kv_pool": {
            "engine_tokens": recommendation.memory.engine_tokens,
            "predicted_tokens": recommendation.memory.predicted_tokens,
            "error_ratio": recommendation.memory.error_ratio,
            "bytes_per_token": recommendation.memory.bytes_per_token,
        },
        "occupancy": _occupancy(recommendation),
        "bound_time": {bound: recommendation.bound_time.ratio(bound) for bound in Bound},
        "headroom": asdict(recommendation.headroom) if recommendation.headroom else None,
        "engines": [_engine(engine) for engine in snapshot.engines],
        "advice": [_advice(advice) for advice in recommendation.advice],
    }


def _engine(engine: EngineSnapshot) -> dict[str, Any]:
    facts = engine.facts
    return {
        "engine": engine.engine_id,
        "agrees": engine.agrees,
        "last_seen": engine.last_seen_seconds,
        "model_name": engine.model_name,
        "vllm_version": facts.vllm_version,
        "max_model_len": facts.max_model_len,
        "max_num_seqs": facts.max_num_seqs,
        "kv_pool_tokens": facts.kv_pool_tokens,
        "running": engine.running,
        "waiting": engine.waiting,
        "kv_used_ratio": engine.kv_used_ratio,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "code": advice.code,
        "severity": advice.severity,
        "text": advice.text,
        "seen": advice.seen,
        "action": advice.action,
    }


def _flag(flag: Flag) -> dict[str, Any]:
    return {
        "recommended": flag.recommended,
        "configured": flag.configured,
        "grade": flag.grade,
        "candidate": flag.candidate,
        "since": flag.since_seconds,
    }


def _memory(recommendation: Recommendation) -> dict[str, Any]:
    memory = recommendation.memory
    return {
        "sequences": memory.sequences,
        "grade": memory.grade,
        "expected_sequences": memory.expected_sequences,
        "hard_limit_sequences": memory.hard_limit_sequences,
        "hard_limit_reason": memory.hard_limit_reason,
        "micro_batches": memory.micro_batches,
    }


def _latency(recommendation: Recommendation) -> dict[str, Any]:
    latency = recommendation.latency
    return {
        "sequences": latency.sequences,
        "grade": latency.grade,
        "low": latency.low,
        "high": latency.high,
        "slo_tpot_seconds": latency.slo_tpot_seconds,
        "statistic": latency.statistic,
        "observed_to": latency.observed_to,
        "curve": [
            {
                "concurrency": point.concurrency,
                "tpot_seconds": point.tpot_seconds,
                "output_tokens_per_second": point.output_tokens_per_second,
                "weight": point.weight,
            }
            for point in latency.curve
        ],
    }


def _context(recommendation: Recommendation) -> dict[str, Any]:
    context, snapshot = recommendation.context, recommendation.snapshot.context
    return {
        "requests": snapshot.requests,
        "window_seconds": snapshot.window_seconds,
        "p50": context.p50,
        "p90": context.p90,
        "p99": context.p99,
        "p999": context.p999,
        "over_configured_ratio": context.over_configured_ratio,
        "over_recommended_ratio": context.over_recommended_ratio,
    }


def _occupancy(recommendation: Recommendation) -> dict[str, Any]:
    occupancy = recommendation.snapshot.occupancy
    return {
        "steps_at_cap_ratio": occupancy.steps_at_cap_ratio(recommendation.max_num_seqs.configured),
        "kv_used_p50": occupancy.kv_used_ratio(0.5),
        "kv_used_p99": occupancy.kv_used_ratio(0.99),
        "preemptions": round(occupancy.preemptions),
    }
