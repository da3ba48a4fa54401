"""One deployment carries two kinds of work that want different flags."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import percent, tokens
from vllm_advisor.ceilings.context_limit import limit_from_quantile
from vllm_advisor.ceilings.modes import Mode, two_modes
from vllm_advisor.evidence.lengths import LengthSource

__all__ = ["mixed_workloads"]


def mixed_workloads(case: Case, at: Thresholds) -> Advice | None:
    """Say so where lengths have two modes, or where saturated hours carry other requests than quiet ones."""
    return _two_lengths(case, at) or _two_times(case, at)


def _two_lengths(case: Case, at: Thresholds) -> Advice | None:
    context = case.snapshot.context
    if context.source is not LengthSource.ACCESS_LOG:
        return None
    modes = two_modes(context.total, apart_factor=at.mixed_factor, least_share_ratio=at.mixed_share_ratio)
    if modes is None:
        return None
    short, long = modes
    seen = (
        f"Requests are of two kinds: {percent(short.requests / context.requests)} of "
        f"{tokens(context.requests)} have a median of {tokens(short.median_tokens)} tokens and the others of "
        f"{tokens(long.median_tokens)}."
    )
    action = (
        f"Serve them apart: {_alone(case, 'the short ones', short)}; {_alone(case, 'the long ones', long)}."
    )
    return Advice(Code.MIXED_WORKLOADS, seen, action)


def _alone(case: Case, who: str, mode: Mode) -> str:
    """Say what one kind would get on its own."""
    config = case.deployment.context
    tokens_at = mode.lengths.quantile_tokens(config.quantile) or 0.0
    limit = limit_from_quantile(
        tokens_at, margin_ratio=config.margin_ratio, round_up_to_tokens=config.round_up_to_tokens
    )
    pool_tokens = case.memory.engine_tokens or case.memory.predicted_tokens
    held = f" with memory for {pool_tokens // limit} full-length sequences" if pool_tokens else ""
    return f"{who} would get --max-model-len {limit}{held}"


def _two_times(case: Case, at: Thresholds) -> Advice | None:
    shape = case.snapshot.shape
    if min(shape.saturated.requests, shape.quiet.requests) < at.shape_requests:
        return None
    if max(shape.saturated.distance(shape.quiet)) < at.shape_factor**2:
        return None
    seen = (
        f"In the {percent(shape.saturated_ratio)} of busy time with requests waiting, a typical request had "
        f"{tokens(shape.saturated.prompt_tokens or 0)} prompt and "
        f"{tokens(shape.saturated.output_tokens or 0)} output tokens, against "
        f"{tokens(shape.quiet.prompt_tokens or 0)} and {tokens(shape.quiet.output_tokens or 0)} at quiet "
        "times."
    )
    action = (
        "If the saturating work is batch, give it a deployment of its own with workload: batch, where no "
        "latency target holds --max-num-seqs down; expect the interactive requests to wait no longer."
    )
    return Advice(Code.MIXED_WORKLOADS, seen, action)
