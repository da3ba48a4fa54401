"""The JSON of a recommendation (design page, "JSON")."""

from __future__ import annotations

from typing import Any

from vllm_advisor.ceilings.advice.case import Flag
from vllm_advisor.ceilings.recommendation import Recommendation

__all__ = ["document", "recommendation_json", "vllm_args"]


def document(recommendations: list[Recommendation]) -> dict[str, Any]:
    """Return the whole answer of ``/api/v1/recommendations`` and ``replay --json``."""
    return {"recommendations": [recommendation_json(one) for one in recommendations]}


def vllm_args(recommendation: Recommendation) -> str:
    """Return the recommended flags as they are typed."""
    flags = {
        "--max-model-len": recommendation.max_model_len.recommended,
        "--max-num-seqs": recommendation.max_num_seqs.recommended,
    }
    return " ".join(f"{flag} {value}" for flag, value in flags.items() if value is not None)


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
        "engines": [
            {"engine": engine.engine_id, "agrees": engine.agrees, "last_seen": engine.last_seen_seconds}
            for engine in snapshot.engines
        ],
        "advice": [
            {"code": advice.code, "severity": advice.severity, "text": advice.text}
            for advice in recommendation.advice
        ],
    }


def _flag(flag: Flag) -> dict[str, Any]:
    return {"recommended": flag.recommended, "configured": flag.configured, "grade": flag.grade}


def _memory(recommendation: Recommendation) -> dict[str, Any]:
    memory = recommendation.memory
    return {
        "sequences": memory.sequences,
        "grade": memory.grade,
        "expected_sequences": memory.expected_sequences,
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
        "preemptions": occupancy.preemptions,
    }
