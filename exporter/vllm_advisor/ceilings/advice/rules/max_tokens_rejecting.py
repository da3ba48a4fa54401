"""Requests ask for more output than the limit leaves them."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import percent, span, tokens
from vllm_advisor.ceilings.engine_version import parse_version

__all__ = ["max_tokens_rejecting"]

_CLAMPS = (0, 32)
"""The first version that cuts ``max_tokens`` silently instead of refusing with 400."""


def max_tokens_rejecting(case: Case, at: Thresholds) -> Advice | None:
    """Say so where prompt plus ``max_tokens`` is over today's limit for a share of the requests."""
    over, configured = case.context.requested_over_configured_ratio, case.max_model_len.configured
    if configured is None or over is None or over < at.rejecting_ratio or not over:
        return None
    seen = (
        f"{percent(over)} of the requests that ask for a number of tokens in "
        f"{span(case.snapshot.context.window_seconds)} ask, prompt and max_tokens together, for more than "
        f"--max-model-len {tokens(configured)}: {_fate(case.snapshot.facts.vllm_version)}."
    )
    return Advice(Code.MAX_TOKENS_REJECTING, seen, _action(case))


def _action(case: Case) -> str:
    asked = case.snapshot.context.requested.quantile_tokens(case.deployment.context.quantile)
    quantile = case.deployment.context.quantile
    limit = f" (the {quantile:g} quantile of what they ask for is {tokens(asked)} tokens)" if asked else ""
    return (
        f"Have clients ask for what they need, by a default or a cap of max_tokens at the gateway{limit}; "
        f"expect {percent(case.context.requested_over_recommended_ratio or 0.0)} such requests at the "
        "recommended limit."
    )


def _fate(vllm_version: str | None) -> str:
    try:
        version = parse_version(vllm_version) if vllm_version else None
    except ValueError:
        version = None
    if version is None:
        return "refused with 400 up to vLLM 0.31, cut short without a word from 0.32 on"
    return "cut short without a word" if version[:2] >= _CLAMPS else "refused with 400"
