"""One ceiling is far below the other, so that what the other offers lies idle."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.memory_options import memory_options
from vllm_advisor.ceilings.advice.words import fold, sequences, tokens
from vllm_advisor.units import format_bytes

__all__ = ["ceilings_far_apart"]


def ceilings_far_apart(case: Case, at: Thresholds) -> Advice | None:
    """Say what would bring the lower one up, or what the higher one's room can hold."""
    memory, latency = case.memory.sequences, case.latency.sequences
    if not memory or not latency or case.is_batch:
        return None
    if latency >= at.ceilings_apart_factor * memory:
        return _memory_lower(case, memory, latency)
    roomiest = max(memory, case.memory.expected_sequences or 0)
    if memory < latency or roomiest < at.ceilings_apart_factor * latency:
        return None
    return _latency_lower(case, roomiest, latency)


def _memory_lower(case: Case, memory: int, latency: int) -> Advice:
    seen = (
        f"Memory holds {sequences(memory)} of {tokens(case.length_tokens or 0)} tokens while latency would "
        f"allow {latency}, {fold(latency / memory)} as many."
    )
    action = f"To raise the memory ceiling: {'; '.join(memory_options(case))}."
    return Advice(Code.CEILINGS_FAR_APART, seen, action)


def _latency_lower(case: Case, roomiest: int, latency: int) -> Advice:
    seen = (
        f"Latency allows {sequences(latency)} while memory holds {case.memory.sequences} of "
        f"{tokens(case.length_tokens or 0)} tokens each"
    )
    if roomiest != case.memory.sequences:
        seen += (
            f", and is expected to hold {roomiest} of the lengths observed, which is the number compared, "
            f"{fold(roomiest / latency)} as many"
        )
    return Advice(Code.CEILINGS_FAR_APART, f"{seen}.", _use_of_memory(case, latency))


def _use_of_memory(case: Case, latency: int) -> str:
    headroom = case.headroom
    if headroom is None:
        return f"More memory brings nothing: faster or more GPUs would raise the ceiling of {latency}."
    held = f"{tokens(headroom.spare_tokens)} tokens"
    if headroom.spare_bytes is not None:
        held = f"{format_bytes(headroom.spare_bytes)} ({held})"
    return (
        f"Use the memory headroom: {held} of prefix cache, or, should requests grow longer, room for "
        f"{tokens(headroom.longest_tokens)} tokens a sequence, with as many sequences running."
    )
