"""What raises the memory ceiling, each with the ceiling it would give."""

from __future__ import annotations

from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.words import a_day, sequences, tokens

__all__ = ["memory_options"]


def memory_options(case: Case) -> tuple[str, ...]:
    """Return the ways to more sequences in memory, with the flag to type and the ceiling each would give."""
    return (*_shorter(case), *_smaller(case), *_larger(case))


def _shorter(case: Case) -> tuple[str, ...]:
    """Today's limit down to the recommended one, or that down by a lower percentile, which is no flag yet."""
    pool_tokens, length = _pool_tokens(case), case.length_tokens
    recommended, configured = case.max_model_len.recommended, case.max_model_len.configured
    if recommended is not None and configured is not None and recommended < configured:
        return (f"--max-model-len {recommended} ({_held(case, pool_tokens, recommended)})",)
    rows = [row for row in case.context.tradeoff if length is not None and row.max_model_len < length]
    if not rows:
        return ()
    row = rows[-1]
    cost = f", requests over it {a_day(row.requests_over_per_day)}" if row.requests_over_per_day else ""
    held = _held(case, pool_tokens, row.max_model_len)
    shorter = f"{tokens(row.max_model_len)} tokens a sequence: {held}{cost}"
    return (f"a context.quantile of {row.quantile:g} in the advisor's configuration ({shorter})",)


def _smaller(case: Case) -> tuple[str, ...]:
    dtype = case.snapshot.facts.cache_dtype or "auto"
    if "8" in dtype or "4" in dtype:
        return ()
    return (f"--kv-cache-dtype fp8 ({_times_two(case)})",)


def _larger(case: Case) -> tuple[str, ...]:
    return (f"twice the KV pool by more GPUs an engine ({_times_two(case)})",)


def _times_two(case: Case) -> str:
    memory = case.memory.sequences
    return "twice as many sequences" if memory is None else f"some {sequences(2 * memory)}"


def _pool_tokens(case: Case) -> int | None:
    """Return the pool where its tokens can be taken by any sequence."""
    pool_tokens, length = case.memory.engine_tokens or case.memory.predicted_tokens, case.length_tokens
    if not pool_tokens or not length or case.memory.sequences is None:
        return None
    return pool_tokens if abs(pool_tokens // length - case.memory.sequences) <= 1 else None


def _held(case: Case, pool_tokens: int | None, length: int) -> str:
    if length == case.length_tokens and case.memory.sequences is not None:
        return sequences(case.memory.sequences)
    return "more sequences" if pool_tokens is None else sequences(pool_tokens // length)
