"""Lengths are cut off by today's limit, so nobody knows how long requests would be."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import percent, span, tokens

__all__ = ["context_censored"]


def context_censored(case: Case, _at: Thresholds) -> Advice | None:
    """Say so where refusals and cuts outnumber what the percentile leaves over."""
    context, configured = case.context, case.max_model_len.configured
    if not context.censored:
        return None
    lost = context.rejected_for_length + context.cut_at_limit
    today = "today's limit" if configured is None else f"today's limit of {tokens(configured)} tokens"
    seen = (
        f"{tokens(lost)} requests in {span(case.snapshot.context.window_seconds)} were refused or cut at "
        f"{today}, more than the {percent(1 - case.deployment.context.quantile)} that the percentile leaves "
        "over, so that it is only a lower bound."
    )
    action = (
        "Let one replica run with twice today's limit for a day of traffic; expect the recommendation to be "
        "graded measured then."
    )
    return Advice(Code.CONTEXT_CENSORED, seen, action)
