"""What the memory that the recommended flags leave unclaimed can hold."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.ceilings.memory import MemoryCeiling

__all__ = ["Headroom", "memory_headroom"]


@dataclass(frozen=True, slots=True)
class Headroom:
    """Room beside ``sequences`` of full length.

    Args:
        spare_tokens: of the pool.
        spare_bytes: the same, None where the model's bytes a token are unknown.
        longest_tokens: the longest --max-model-len that as many sequences could all reach.
    """

    spare_tokens: int
    spare_bytes: int | None
    longest_tokens: int


def memory_headroom(
    memory: MemoryCeiling, *, sequences: int | None, max_model_len: int | None
) -> Headroom | None:
    """Return what is left beside a number of full-length sequences; None where nothing is, or it is unknown.

    Only where the pool is tokens that any sequence can take: on sliding-window and hybrid models the token
    line is a concurrency in token units, and no tokens can be taken off it.
    """
    pool_tokens = memory.engine_tokens or memory.predicted_tokens
    if not pool_tokens or not sequences or not max_model_len or memory.sequences is None:
        return None
    if abs(pool_tokens // max_model_len - memory.sequences) > 1:
        return None
    spare_tokens = pool_tokens - sequences * max_model_len
    if spare_tokens <= 0:
        return None
    spare_bytes = spare_tokens * memory.bytes_per_token if memory.bytes_per_token else None
    return Headroom(spare_tokens, spare_bytes, pool_tokens // sequences)
