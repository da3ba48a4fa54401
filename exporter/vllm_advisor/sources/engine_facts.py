"""What an engine says of its own configuration: page labels, ``/v1/models``, startup log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CapSource", "EngineFacts"]


class CapSource(StrEnum):
    """Where a configured max-num-seqs was learnt."""

    CONFIG = "config"
    STARTUP_LOG = "startup_log"
    SERVER_INFO = "server_info"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine's configuration as far as it is known; None where it is not.

    Args:
        max_model_len: tokens, from ``/v1/models`` or from the page's labels.
        max_num_seqs: the configured cap, with where it was learnt in ``max_num_seqs_source``.
        kv_pool_tokens: what this one engine reports as its KV cache size.
        kv_max_concurrency: what it reports as maximum concurrency at its max_model_len.
        num_gpu_blocks: of this one engine (the page's sum over data-parallel engines divided).
        block_size_tokens: the scheduler's block.
    """

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_seqs_source: CapSource | None = None
    kv_pool_tokens: int | None = None
    kv_max_concurrency: float | None = None
    num_gpu_blocks: int | None = None
    block_size_tokens: int | None = None
    cache_dtype: str | None = None
    gpu_memory_utilization_ratio: float | None = None
    vllm_version: str | None = None
