"""How an engine is started, as far as its memory depends on it; names are vLLM's own flags."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vllm_advisor.ceilings.engine_version import (
    ASYNC_BATCHES,
    LARGE_CAP,
    LATEST,
    UTILIZATION_092,
    V1,
    Version,
)

__all__ = ["DTYPE_BYTES", "EngineFlags"]

DTYPE_BYTES = {
    "bfloat16": 2,
    "float16": 2,
    "half": 2,
    "float32": 4,
    "float": 4,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
    "fp8_ds_mla": 1,
    "int8": 1,
    "fp8_per_token_head": 1,
    "int8_per_token_head": 1,
    "nvfp4": 1,
}
"""Bytes of one element by the names that ``--dtype`` and ``--kv-cache-dtype`` take, unscaled."""

_LARGE_GPU_BYTES = 70 * 2**30
_LARGEST_GPU_BYTES = 160 * 2**30
_WHOLE_PREFILL_TOKENS = 32768
_SMALL_BATCH_TOKENS = 2048
_SMALL_CAP = 256


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """Flags as given; None where they are left at vLLM's default.

    Args:
        speculative_tokens: tokens that a drafter proposes in one step.
        speculative_layers: layers with a cache that the drafter adds.
        hybrid_manager: off with ``--disable-hybrid-kv-cache-manager``.
        gpu_memory_bytes: of one GPU, as far as defaults follow from it; None is taken for a large one.
    """

    version: Version = LATEST
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    block_size_tokens: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    async_scheduling: bool | None = None
    prefix_caching: bool | None = None
    hybrid_manager: bool = True
    num_gpu_blocks_override: int | None = None
    speculative_tokens: int = 0
    speculative_layers: int = 0
    mamba_ssm_cache_dtype: str = "auto"
    enforce_eager: bool = False
    utilization: float | None = None
    gpu_memory_bytes: int | None = None

    @property
    def takes_large_defaults(self) -> bool:
        """Whether a cap or a batch follows from a GPU's size alone, which an A100 has and an H100 too."""
        size_bytes = self.gpu_memory_bytes or _LARGE_GPU_BYTES
        is_open = self.max_num_seqs is None or self.max_num_batched_tokens is None
        return is_open and self.version >= V1 and _LARGE_GPU_BYTES <= size_bytes < _LARGEST_GPU_BYTES

    def with_small_defaults(self) -> EngineFlags:
        """Return the same flags where the GPU is an A100, whose defaults are those of smaller ones."""
        return replace(
            self,
            max_num_seqs=self.max_num_seqs or _SMALL_CAP,
            max_num_batched_tokens=self.max_num_batched_tokens or _SMALL_BATCH_TOKENS,
        )

    @property
    def utilization_ratio(self) -> float:
        """The share of a GPU's memory that the engine may use."""
        return self.utilization or (0.92 if self.version >= UTILIZATION_092 else 0.9)

    @property
    def batched_tokens(self) -> int:
        """``--max-num-batched-tokens``: by default 2,048; 8,192 on GPUs from 70 GiB, 16,384 from 160 GiB.

        Source: vLLM ``engine/arg_utils.py:get_batch_defaults``, an API server. Before V1 no prefill was cut
        up to a max-model-len of 32,768, and took a batch of that length.
        """
        if self.max_num_batched_tokens is not None:
            return self.max_num_batched_tokens
        if self.version < V1:
            whole = self.max_model_len or 0
            return max(_SMALL_BATCH_TOKENS, whole) if whole <= _WHOLE_PREFILL_TOKENS else _SMALL_BATCH_TOKENS
        size_bytes = self.gpu_memory_bytes or _LARGE_GPU_BYTES
        if size_bytes >= _LARGEST_GPU_BYTES:
            return 16384
        return 8192 if size_bytes >= _LARGE_GPU_BYTES else _SMALL_BATCH_TOKENS

    @property
    def sequences(self) -> int:
        """``--max-num-seqs``: by default 256; 1,024 on GPUs from 70 GiB since 0.10 (same source)."""
        if self.max_num_seqs is not None:
            return self.max_num_seqs
        is_large = (self.gpu_memory_bytes or _LARGE_GPU_BYTES) >= _LARGE_GPU_BYTES
        return 1024 if is_large and self.version >= LARGE_CAP else _SMALL_CAP

    @property
    def in_flight_tokens(self) -> int:
        """Tokens that may be scheduled and not yet settled (vLLM ``config/vllm.py:max_in_flight_tokens``)."""
        if self.version < ASYNC_BATCHES:
            return self.batched_tokens
        batches = self.pipeline_parallel_size + (self.async_scheduling is not False)
        return batches * self.batched_tokens
