"""A recommendation as text for people."""

from __future__ import annotations

from vllm_advisor.ceilings.advice.case import Flag
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.units import format_duration
from vllm_advisor.web.recommendation_json import vllm_args

__all__ = ["print_recommendation"]


def print_recommendation(recommendation: Recommendation) -> None:
    """Print one deployment's flags, ceilings and advice."""
    latency = recommendation.latency
    rows = [
        ("deployment", recommendation.deployment.name),
        ("--max-model-len", _flag(recommendation.max_model_len)),
        ("--max-num-seqs", _flag(recommendation.max_num_seqs)),
        ("binding ceiling", str(recommendation.binding)),
        ("memory ceiling", _count(recommendation.memory.sequences)),
        (
            "latency ceiling",
            f"{_count(latency.sequences)} ({latency.grade}; {latency.statistic} time per output token at most "
            f"{format_duration(latency.slo_tpot_seconds)}, observed to {_count(latency.observed_to)})",
        ),
    ]
    for name, value in rows:
        print(f"{name:16} {value}")
    if args := vllm_args(recommendation):
        print(f"{'flags':16} {args}")
    for advice in recommendation.advice:
        print(f"{advice.severity:16} {advice.code}: {advice.text}")


def _flag(flag: Flag) -> str:
    return f"{_count(flag.configured)} -> {_count(flag.recommended)} ({flag.grade})"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
