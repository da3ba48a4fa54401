"""The configured limit is far above what the traffic needs."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.expected import change_of_length
from vllm_advisor.ceilings.advice.words import fold, span, tokens

__all__ = ["max_model_len_oversized"]


def max_model_len_oversized(case: Case, at: Thresholds) -> Advice | None:
    """Say so from a multiple of the recommended limit on."""
    recommended, configured = case.max_model_len.recommended, case.max_model_len.configured
    if recommended is None or configured is None or configured < at.oversized_factor * recommended:
        return None
    context = case.snapshot.context
    needs = "the longest" if case.is_batch else f"the {case.deployment.context.quantile:g} quantile"
    seen = (
        f"--max-model-len is {tokens(configured)}, {fold(configured / recommended)} the "
        f"{tokens(recommended)} that {needs} of {tokens(context.requests)} requests in "
        f"{span(context.window_seconds)} needs with its margin, rounded up "
        f"to a multiple of {tokens(case.deployment.context.round_up_to_tokens)}."
    )
    action = f"Set --max-model-len {recommended}. {change_of_length(case, configured, recommended)}"
    return Advice(Code.MAX_MODEL_LEN_OVERSIZED, seen, action)
