"""The KV pool by arithmetic: what a GPU has left, and what the engine's own lines would say of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.estimate import Estimate
from vllm_advisor.ceilings.kv_group import KvLayout
from vllm_advisor.ceilings.kv_layout import kv_layout
from vllm_advisor.ceilings.overheads import activation_peak, cuda_graphs, non_torch
from vllm_advisor.ceilings.weights import weights_per_gpu
from vllm_advisor.sources.model_config import ModelConfig

__all__ = ["PoolInputs", "PoolPrediction", "Share", "predict_pool"]


_LARGEST_CAP = 65536


@dataclass(frozen=True, slots=True)
class PoolInputs:
    """What the pool's size follows from, as given; None where it is not.

    Args:
        kv_cache_memory_bytes: one GPU's pool, which leaves all other arithmetic out.
        gpu_memory_bytes: of one GPU.
        weights_bytes: of one GPU; else from ``parameters``, else counted.
        headroom_bytes: activations, context and CUDA graphs of one GPU; else predicted.
        quantization: as ``--quantization``.
    """

    kv_cache_memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    weights_bytes: int | None = None
    parameters: float | None = None
    quantization: str | None = None
    headroom_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """One thing that takes a GPU's memory."""

    name: str
    size: Estimate


@dataclass(frozen=True, slots=True)
class PoolPrediction:
    """A model's pool on one engine.

    Args:
        shares: where each byte of one GPU goes, the pool left out.
        pool: bytes of one GPU's pool, negative where nothing is left, None where they do not follow.
        missing: what the pool's size lacks, where it is None.
    """

    model: ModelConfig
    flags: EngineFlags
    inputs: PoolInputs
    layout: KvLayout
    shares: tuple[Share, ...] = ()
    pool: Estimate | None = None
    missing: str | None = None

    @property
    def model_max_len(self) -> int | None:
        """The longest sequence the model was made for, in tokens."""
        return self.model.max_len_tokens

    @property
    def is_exact(self) -> bool:
        """Whether the pool was given in bytes or blocks, so that the engine's own counting holds."""
        return self.inputs.kv_cache_memory_bytes is not None or self.flags.num_gpu_blocks_override is not None

    @property
    def blocks(self) -> int | None:
        """Blocks of one engine, the placeholder block counted as the engine does."""
        if self.flags.num_gpu_blocks_override is not None:
            return self.flags.num_gpu_blocks_override
        return self.layout.blocks(self.pool.expected_bytes) if self.pool else None

    def tokens(self, max_model_len: int) -> int | None:
        """Return what the token line says; an estimated pool of full attention is not cut to whole blocks."""
        if self.blocks is None:
            return None
        if self.pool is not None and self.layout.is_plain and not self.is_exact:
            tokens = max(0, self.pool.expected_bytes) // self.layout.rank_token_bytes
            return tokens * self.layout.context_ranks
        return self.layout.reported_tokens(self.blocks, max_model_len)

    def max_concurrency(self, max_model_len: int) -> float | None:
        """Return what the concurrency line says."""
        tokens = self.tokens(max_model_len)
        if tokens is None or self.blocks is None:
            return None
        if self.layout.is_plain and not self.is_exact:
            return tokens / max_model_len
        return self.layout.max_concurrency(self.blocks, max_model_len)

    def sequences(self, max_model_len: int) -> int | None:
        """Return how many sequences of the full length the pool holds."""
        concurrency = self.max_concurrency(max_model_len)
        return None if concurrency is None else math.floor(concurrency)

    def with_max_num_seqs(self, max_num_seqs: int) -> PoolPrediction:
        """Return the same engine with another cap: fewer sequences to profile leave a larger pool."""
        return _sized(replace(self, flags=replace(self.flags, max_num_seqs=max_num_seqs)))

    def largest_cap(self, max_model_len: int) -> int | None:
        """Return the largest cap whose own pool still holds that many sequences of the full length.

        A higher cap profiles more sequences and leaves a smaller pool, so the two are found together; 0 where
        not even one sequence fits, None where the pool is not known.
        """
        if self.sequences(max_model_len) is None:
            return None
        low, high = 0, _LARGEST_CAP
        while low < high:
            middle = (low + high + 1) // 2
            if (self.with_max_num_seqs(middle).sequences(max_model_len) or 0) >= middle:
                low = middle
            else:
                high = middle - 1
        return low


def predict_pool(model: ModelConfig, flags: EngineFlags, inputs: PoolInputs) -> PoolPrediction:
    """Return a model's KV pool on one engine.

    Source of the sum: vLLM ``v1/worker/gpu_worker.py:determine_available_memory``: utilization x total,
    less weights, activation peak, non-torch memory and, in newer versions, an estimate of the CUDA graphs.
    """
    flags = replace(flags, gpu_memory_bytes=inputs.gpu_memory_bytes)
    return _sized(PoolPrediction(model, flags, inputs, kv_layout(model, flags)))


def _sized(bare: PoolPrediction) -> PoolPrediction:
    model, flags, inputs = bare.model, bare.flags, bare.inputs
    if inputs.kv_cache_memory_bytes is not None:
        return replace(bare, pool=Estimate.given(inputs.kv_cache_memory_bytes))
    if inputs.gpu_memory_bytes is None:
        return replace(bare, missing="the GPU's memory")
    weights = _weights(model, flags, inputs)
    if weights is None:
        fields = ", ".join(model.weights.missing)
        return replace(bare, missing=f"the number of parameters ({fields} not given)")
    usable_bytes = math.floor(inputs.gpu_memory_bytes * Fraction(str(flags.utilization_ratio)))
    unused = Estimate.given(inputs.gpu_memory_bytes - usable_bytes)
    shares = (Share("weights", weights), *_overheads(model, flags, inputs))
    pool = _what_is_left(usable_bytes, shares)
    return replace(bare, shares=(Share("left alone by the utilization", unused), *shares), pool=pool)


def _weights(model: ModelConfig, flags: EngineFlags, inputs: PoolInputs) -> Estimate | None:
    if inputs.weights_bytes is not None:
        return Estimate.given(inputs.weights_bytes)
    return weights_per_gpu(model, flags, parameters=inputs.parameters, quantization=inputs.quantization)


def _overheads(model: ModelConfig, flags: EngineFlags, inputs: PoolInputs) -> tuple[Share, ...]:
    if inputs.headroom_bytes is not None:
        return (Share("headroom", Estimate.given(inputs.headroom_bytes)),)
    return (
        Share("activation peak", activation_peak(model, flags)),
        Share("non-torch memory", non_torch(flags)),
        Share("CUDA graphs", cuda_graphs(model, flags)),
    )


def _what_is_left(usable_bytes: int, shares: tuple[Share, ...]) -> Estimate:
    return Estimate(
        usable_bytes - sum(share.size.expected_bytes for share in shares),
        usable_bytes - sum(share.size.high_bytes for share in shares),
        usable_bytes - sum(share.size.low_bytes for share in shares),
        "utilization x total, less what else takes memory",
    )
