"""``plan``'s answer in words."""

from __future__ import annotations

from vllm_advisor.commands.plan_answer import PlanAnswer
from vllm_advisor.sources.startup_log import StartupReport

__all__ = ["plan_text"]


def plan_text(answer: PlanAnswer, report: StartupReport) -> str:
    """Return the whole answer as text."""
    return "\n".join(f"{key}: {value}" for key, value in answer.to_json().items())
