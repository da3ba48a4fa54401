"""Nothing has been observed for a while."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import span

__all__ = ["evidence_stale"]


def evidence_stale(case: Case, at: Thresholds) -> Advice | None:
    """Say so once the newest page or log line is old."""
    last_seconds = case.snapshot.last_observation_seconds
    if last_seconds is None or case.snapshot.now_seconds - last_seconds < at.stale_seconds:
        return None
    age_seconds = case.snapshot.now_seconds - last_seconds
    return Advice(
        Code.EVIDENCE_STALE,
        f"The newest page or log line is {span(age_seconds)} old.",
        "Check that the engines are up and that the advisor reaches them; the recommendation stays as it is.",
    )
