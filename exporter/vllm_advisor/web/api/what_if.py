"""What the ceilings would be if something were otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.ceilings.what_if import Change
from vllm_advisor.config_words import expectation
from vllm_advisor.errors import InputError
from vllm_advisor.web.recommendation_json import vllm_args
from vllm_advisor.web.served import ServedDeployment

__all__ = ["change_from_query", "what_if_json"]


def change_from_query(query: Mapping[str, str]) -> Change:
    """Read a change from the parameters of an address.

    Raises:
        InputError: a parameter is unknown or its value wrong.
    """
    try:
        return Change.model_validate(dict(query))
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(expectation(problem), key=".".join(map(str, problem["loc"]))) from error


def what_if_json(deployment: ServedDeployment, change: Change) -> dict[str, Any]:
    """Return the outcome as it is, and under a change, both from the newest evidence alone."""
    snapshot = deployment.recommendation.snapshot
    today = deployment.pipeline.what_if(Change(), snapshot)
    supposed = deployment.pipeline.what_if(change, snapshot)
    return {
        "change": change.model_dump(exclude_none=True),
        "today": _outcome(today.recommendation),
        "supposed": _outcome(supposed.recommendation),
        "notes": list(supposed.notes),
    }


def _outcome(recommendation: Recommendation) -> dict[str, Any]:
    length, cap = recommendation.max_model_len, recommendation.max_num_seqs
    memory, latency = recommendation.memory, recommendation.latency
    return {
        "max_model_len": {"recommended": length.recommended, "grade": length.grade},
        "max_num_seqs": {"recommended": cap.recommended, "grade": cap.grade},
        "memory": {
            "sequences": memory.sequences,
            "expected_sequences": memory.expected_sequences,
            "grade": memory.grade,
        },
        "latency": {"sequences": latency.sequences, "grade": latency.grade},
        "binding": recommendation.binding,
        "over_recommended_ratio": recommendation.context.over_recommended_ratio,
        "vllm_args": vllm_args(recommendation),
    }
