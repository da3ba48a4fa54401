"""Batch work: no latency target, so the rule is reversed and throughput decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_advisor.ceilings.context_limit import ContextLimit, limit_from_quantile
from vllm_advisor.ceilings.grade import Grade, weakest
from vllm_advisor.ceilings.latency import CurvePoint
from vllm_advisor.ceilings.memory import MemoryCeiling
from vllm_advisor.config import ContextConfig
from vllm_advisor.evidence.lengths import ContextSnapshot

__all__ = ["BatchCap", "Knee", "batch_cap", "batch_context_limit", "throughput_knee"]

_GAIN_RATIO = 0.02
"""More concurrency must bring more throughput than this to be worth it."""
_BEYOND_KNEE = 1.2
"""How far past a knee throughput must have been seen not to grow."""
_REACH = 1.5
"""How far past the concurrency that was seen a cap may lie (design page)."""


@dataclass(frozen=True, slots=True)
class Knee:
    """The concurrency from which on throughput grows no further.

    Args:
        sequences: running.
        output_tokens_per_second: of one engine there.
        reached: whether higher concurrency was seen to bring no more; else it is only the highest seen.
    """

    sequences: int
    output_tokens_per_second: float
    reached: bool


@dataclass(frozen=True, slots=True)
class BatchCap:
    """max-num-seqs for batch work, None where nothing says it.

    Args:
        by_memory: whether memory, not the throughput knee, decides.
    """

    sequences: int | None
    grade: Grade
    by_memory: bool


def throughput_knee(curve: Sequence[CurvePoint]) -> Knee | None:
    """Return the lowest concurrency whose throughput is within 2% of the best seen, None without any."""
    points = [
        (p.concurrency, p.output_tokens_per_second) for p in curve if p.output_tokens_per_second is not None
    ]
    if not points:
        return None
    best = max(rate for _, rate in points)
    concurrency, rate = next(point for point in points if point[1] >= best * (1 - _GAIN_RATIO))
    reached = max(points)[0] >= _BEYOND_KNEE * concurrency
    return Knee(max(1, math.floor(concurrency)), rate, reached)


def batch_cap(memory: MemoryCeiling, curve: Sequence[CurvePoint], observed_to: int | None) -> BatchCap:
    """Return the cap of batch work: up to the expected memory ceiling and beyond, to the throughput knee.

    Past the knee more concurrency can lose throughput, whatever memory allows. A knee seen beyond the
    expected ceiling counts, since the throughput there already pays for preemptions. Where no knee was
    reached, the cap lies at most 1.5 times beyond the concurrency seen, ``observed_to``.
    """
    knee, expected = throughput_knee(curve), memory.expected_sequences
    if knee is not None and knee.reached:
        limit = memory.hard_limit_sequences or knee.sequences
        return BatchCap(min(knee.sequences, limit), Grade.MEASURED, by_memory=limit < knee.sequences)
    if expected is None or observed_to is None:
        return BatchCap(None, Grade.NONE, by_memory=False)
    reach = max(1, math.floor(observed_to * _REACH))
    if knee is not None and knee.sequences > expected:
        sequences = min(knee.sequences, reach)
        return BatchCap(sequences, weakest(memory.grade, Grade.EXTRAPOLATED), by_memory=True)
    sequences = min(expected, reach)
    grade = memory.grade if sequences <= observed_to else weakest(memory.grade, Grade.EXTRAPOLATED)
    return BatchCap(sequences, grade, by_memory=sequences == expected)


def batch_context_limit(
    limit: ContextLimit, snapshot: ContextSnapshot, config: ContextConfig, model_max_len: int | None
) -> ContextLimit:
    """Return the limit for the longest document seen; reserving cache for it is no concern."""
    if snapshot.longest_tokens is None or limit.max_model_len is None:
        return limit
    longest = limit_from_quantile(
        snapshot.longest_tokens,
        margin_ratio=config.margin_ratio,
        round_up_to_tokens=config.round_up_to_tokens,
    )
    tokens = max(limit.max_model_len, longest if model_max_len is None else min(longest, model_max_len))
    return replace(limit, max_model_len=tokens)
