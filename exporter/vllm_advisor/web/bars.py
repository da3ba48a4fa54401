"""Horizontal bars of the deployment's page: the ceilings side by side, and where a GPU's memory goes."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.ceilings.estimate import Estimate
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.ceilings.recommendation import Binding, Recommendation
from vllm_advisor.units import format_bytes
from vllm_advisor.web.rendering import count

__all__ = ["CeilingBar", "MemoryBar", "ceiling_bars", "memory_bars"]


@dataclass(frozen=True, slots=True)
class CeilingBar:
    """A number of sequences.

    Args:
        kind: what it is drawn as.
        percent: of the longest bar, None where the number is not known.
        range: between what it lies, in words.
    """

    label: str
    kind: str
    sequences: int | None
    percent: float | None
    binds: bool = False
    range: str = ""


@dataclass(frozen=True, slots=True)
class MemoryBar:
    """A share of one GPU's memory, from ``start`` on, in percent of all of it."""

    label: str
    kind: str
    start: float
    percent: float
    size: str
    range: str


def ceiling_bars(recommendation: Recommendation) -> list[CeilingBar]:
    """Return the bars, on one scale."""
    memory, latency = recommendation.memory, recommendation.latency
    today, binding = recommendation.max_num_seqs.configured, recommendation.binding
    longest = max((n for n in (memory.sequences, latency.sequences, today) if n), default=None)

    def bar(
        label: str, kind: str, sequences: int | None, ceiling: Binding | None = None, between: str = ""
    ) -> CeilingBar:
        percent = None if sequences is None or not longest else round(100 * sequences / longest, 2)
        return CeilingBar(label, kind, sequences, percent, binding is ceiling, between)

    expected = memory.expected_sequences
    return [
        bar(
            "Memory ceiling",
            "memory",
            memory.sequences,
            Binding.MEMORY,
            f"of full length; {count(expected)} of the lengths seen" if expected is not None else "",
        ),
        bar("Latency ceiling", "latency", latency.sequences, Binding.LATENCY, _between(recommendation)),
        bar("Today's cap", "today", today),
    ]


def _between(recommendation: Recommendation) -> str:
    latency, bounds = recommendation.latency, recommendation.latency_bounds
    if latency.sequences is None and bounds.at_most is not None:
        return f"at most {count(bounds.at_most)}"
    if latency.sequences is None and bounds.at_least is not None:
        return f"at least {count(bounds.at_least)}"
    if latency.low is None and latency.high is None:
        return ""
    if latency.high is None:
        return f"at least {count(latency.low)}"
    return f"{count(latency.low or 0)} to {count(latency.high)}"


def memory_bars(prediction: PoolPrediction | None) -> list[MemoryBar]:
    """Return what takes one GPU's memory, one after another, and the pool; nothing where it is not known."""
    if prediction is None or prediction.pool is None or not prediction.inputs.gpu_memory_bytes:
        return []
    total_bytes, used_bytes = prediction.inputs.gpu_memory_bytes, 0
    bars = [_memory_bar("One GPU", "total", 0, Estimate.given(total_bytes), total_bytes)]
    for share in prediction.shares:
        bars.append(_memory_bar(_sentence(share.name), "share", used_bytes, share.size, total_bytes))
        used_bytes += share.size.expected_bytes
    bars.append(_memory_bar("KV pool, what is left", "pool", used_bytes, prediction.pool, total_bytes))
    return bars


def _memory_bar(label: str, kind: str, start_bytes: int, size: Estimate, total_bytes: int) -> MemoryBar:
    given = size.low_bytes == size.high_bytes
    return MemoryBar(
        label=label,
        kind=kind,
        start=round(100 * min(start_bytes, total_bytes) / total_bytes, 2),
        percent=round(100 * max(0, size.expected_bytes) / total_bytes, 2),
        size=format_bytes(size.expected_bytes),
        range="" if given else f"{format_bytes(size.low_bytes)} to {format_bytes(size.high_bytes)}",
    )


def _sentence(name: str) -> str:
    return name[:1].upper() + name[1:]
