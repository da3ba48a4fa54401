"""The configured limit refuses or cuts requests."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import percent, span, tokens

__all__ = ["max_model_len_rejecting"]


def max_model_len_rejecting(case: Case, at: Thresholds) -> Advice | None:
    """Say so from a share of the demand on; only access logs tell of refused requests."""
    over, configured = case.context.over_configured_ratio, case.max_model_len.configured
    if configured is None or over is None or over < at.rejecting_ratio or not over:
        return None
    window = case.snapshot.context.window_seconds
    seen = (
        f"--max-model-len {tokens(configured)} refused {tokens(case.context.rejected_for_length)} requests "
        f"and cut {tokens(case.context.cut_at_limit)} answers in {span(window)}: {percent(over)} of the "
        "demand."
    )
    return Advice(Code.MAX_MODEL_LEN_REJECTING, seen, _action(case, configured))


def _action(case: Case, configured: int) -> str:
    recommended = case.max_model_len.recommended
    if recommended is not None and recommended > configured:
        held = case.memory.sequences
        room = f", with memory for {held} full-length sequences" if held is not None else ""
        return f"Set --max-model-len {recommended}; expect these requests to be served{room}."
    return (
        "Raise --max-model-len beyond what these requests asked for, which the log does not say; expect "
        "fewer refusals and memory for fewer full-length sequences."
    )
