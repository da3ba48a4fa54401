"""The KV pool by arithmetic is not the one the engine has."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import percent, tokens

__all__ = ["kv_pool_mismatch"]


def kv_pool_mismatch(case: Case, at: Thresholds) -> Advice | None:
    """Say so, with the misreading that would explain it where one does."""
    memory = case.memory
    if memory.error_ratio is None or abs(memory.error_ratio) <= at.prediction_error_ratio:
        return None
    direction = "more" if memory.error_ratio > 0 else "less"
    seen = (
        f"The KV pool works out at {tokens(memory.predicted_tokens or 0)} tokens, "
        f"{percent(abs(memory.error_ratio))} {direction} than the {tokens(memory.engine_tokens or 0)} that "
        "the engine reports."
    )
    cause = f"{memory.diagnosis.text.rstrip('.')}. " if memory.diagnosis else ""
    action = (
        f"{cause}Check the model config, GPU memory, parallel sizes and KV dtype given for this deployment; "
        "the engine's own report is what the ceilings use meanwhile."
    )
    return Advice(Code.KV_POOL_MISMATCH, seen, action)
