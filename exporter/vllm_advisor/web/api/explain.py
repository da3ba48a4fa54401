"""How a recommendation was come to: inputs, intermediate numbers and the reason for each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.web.explain import explanation
from vllm_advisor.web.recommendation_json import recommendation_json

__all__ = ["explain_json"]


def explain_json(recommendation: Recommendation) -> dict[str, Any]:
    """Return the recommendation beside what it was worked out from."""
    deployment, snapshot = recommendation.deployment, recommendation.snapshot
    return {
        "deployment": deployment.name,
        "evaluated_at": snapshot.now_seconds,
        "settings": deployment.model_dump(mode="json", by_alias=True, include={"slo", "context", "workload"}),
        "engine": asdict(snapshot.facts),
        "reasons": {
            "max_model_len": recommendation.context.reason,
            "memory_ceiling": recommendation.memory.reason,
        },
        "recommendation": recommendation_json(recommendation),
    } | explanation(recommendation)
