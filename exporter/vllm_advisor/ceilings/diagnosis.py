"""Which misreading would explain a predicted pool that the engine does not have."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.ceilings.pool import PoolPrediction

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What explains the gap."""

    text: str


def diagnose(prediction: PoolPrediction, engine_tokens: int, max_model_len: int) -> Diagnosis | None:
    """Stub until the misreadings are written."""
