"""A recommendation as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_advisor.ceilings.advice.case import Flag
from vllm_advisor.ceilings.bound_time import Bound, BoundTime
from vllm_advisor.ceilings.headroom import Headroom
from vllm_advisor.ceilings.latency import LatencyCeiling
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.units import format_bytes, format_duration
from vllm_advisor.web.recommendation_json import vllm_args

__all__ = ["print_recommendation"]


def print_recommendation(recommendation: Recommendation) -> None:
    """Print one deployment's flags, ceilings and advice."""
    rows = [
        ("deployment", recommendation.deployment.name),
        ("--max-model-len", _flag(recommendation.max_model_len)),
        ("--max-num-seqs", _flag(recommendation.max_num_seqs)),
        ("binding ceiling", str(recommendation.binding)),
        ("memory ceiling", _count(recommendation.memory.sequences)),
        *_latency(recommendation),
        ("memory headroom", _headroom(recommendation.headroom)),
        ("busy time", _bound_time(recommendation.bound_time)),
    ]
    for name, value in rows:
        print(f"{name:16} {value}")
    if args := vllm_args(recommendation):
        print(f"{'flags':16} {args}")
    for advice in recommendation.advice:
        print(f"{advice.severity:16} {advice.code}: {advice.text}")


def _latency(recommendation: Recommendation) -> Iterator[tuple[str, str]]:
    """Yield the row of the latency ceiling, which batch work does not have."""
    if recommendation.deployment.workload == "batch":
        yield "observed to", _count(recommendation.latency.observed_to)
    else:
        yield "latency ceiling", _latency_ceiling(recommendation.latency)


def _latency_ceiling(latency: LatencyCeiling) -> str:
    target = f"{latency.statistic} time per output token at most {format_duration(latency.slo_tpot_seconds)}"
    observed = f"observed to {_count(latency.observed_to)}"
    return f"{_count(latency.sequences)} ({latency.grade}; {target}, {observed})"


def _headroom(headroom: Headroom | None) -> str:
    if headroom is None:
        return "none"
    size = f" ({format_bytes(headroom.spare_bytes)})" if headroom.spare_bytes is not None else ""
    return f"{headroom.spare_tokens:,} tokens{size} beside the recommended flags"


def _bound_time(bound_time: BoundTime) -> str:
    shares = {bound: bound_time.ratio(bound) for bound in Bound}
    known = (f"{ratio:.0%} {bound.replace('_', ' ')}" for bound, ratio in shares.items() if ratio)
    return ", ".join(known) or "none"


def _flag(flag: Flag) -> str:
    return f"{_count(flag.configured)} -> {_count(flag.recommended)} ({flag.grade})"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
