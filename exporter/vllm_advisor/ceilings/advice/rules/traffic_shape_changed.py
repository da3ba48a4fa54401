"""Requests are of another length than those the recommendation rests on."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import span, tokens
from vllm_advisor.evidence.shape import Shape

__all__ = ["traffic_shape_changed"]


def traffic_shape_changed(case: Case, at: Thresholds) -> Advice | None:
    """Say so where the last half hour is far both from the window and from the same time of earlier days."""
    shape = case.snapshot.shape
    if min(shape.recent.requests, shape.before.requests) < at.shape_requests:
        return None
    if not _apart(shape.recent, shape.before, at.shape_factor):
        return None
    known = shape.same_time.requests >= at.shape_requests
    if known and not _apart(shape.recent, shape.same_time, at.shape_factor):
        return None
    return Advice(Code.TRAFFIC_SHAPE_CHANGED, _seen(case), _action(shape.recent, shape.before))


def _apart(first: Shape, second: Shape, factor: float) -> bool:
    return max(*first.distance(second), first.mix_distance(second)) >= factor


def _seen(case: Case) -> str:
    recent, before = case.snapshot.shape.recent, case.snapshot.shape.before
    return (
        f"In the last {span(case.snapshot.shape.recent_seconds)} a typical answer had "
        f"{tokens(recent.output_tokens or 0)} tokens and a typical prompt "
        f"{tokens(recent.prompt_tokens or 0)}, against {tokens(before.output_tokens or 0)} and "
        f"{tokens(before.prompt_tokens or 0)} in the {span(case.snapshot.context.window_seconds)} that the "
        "recommendation rests on."
    )


def _action(recent: Shape, before: Shape) -> str:
    if (recent.output_tokens or 0) >= (before.output_tokens or 0):
        consequence = "longer answers hold memory for longer, so both ceilings may fall"
    else:
        consequence = "shorter answers mean more prefill beside decoding, so the latency ceiling may move"
    return (
        "Look again at --max-model-len and --max-num-seqs in a day, and find out what changed: "
        f"{consequence}; expect the recommendation to follow as the window fills."
    )
