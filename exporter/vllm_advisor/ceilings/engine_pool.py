"""A running engine's KV pool by arithmetic, from what it says of itself and what the configuration adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from vllm_advisor.ceilings.engine_flags import DTYPE_BYTES, EngineFlags
from vllm_advisor.ceilings.engine_version import release_of
from vllm_advisor.ceilings.pool import PoolInputs, PoolPrediction, predict_pool
from vllm_advisor.ceilings.speculation import Speculation
from vllm_advisor.ceilings.weights import QUANTIZATION_BYTES
from vllm_advisor.config import EngineConfig
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.model_config import ModelConfig

__all__ = ["predict_engine_pool"]

_BATCHED_TOKENS = (2048, 4096, 8192, 16384, 32768)
_SAME_RATIO = 0.0005


@lru_cache(maxsize=256)
def predict_engine_pool(
    model: ModelConfig,
    engine: EngineConfig,
    facts: EngineFacts,
    *,
    logged_pool_bytes: int | None = None,
) -> PoolPrediction:
    """Return the pool of one engine.

    Flags that no page tells and nobody configured, but that decide what a window reserves, are taken so that
    the engine's own concurrency comes out, where one choice of them does that.

    Args:
        model: its model.
        engine: what the configuration says; what was read of the engine wins.
        facts: what was read.
        logged_pool_bytes: one GPU's memory for the KV cache as its startup log says.
    """
    flags = _flags(engine, facts, model)
    inputs = _inputs(engine, facts, logged_pool_bytes)
    prediction = predict_pool(model, flags, inputs)
    if prediction.layout.is_plain or _comes_out(prediction, facts):
        return prediction
    others = (predict_pool(model, other, inputs) for other in _unread(flags))
    return next((other for other in others if _comes_out(other, facts)), prediction)


def _flags(engine: EngineConfig, facts: EngineFacts, model: ModelConfig) -> EngineFlags:
    drafter = _drafter(engine, facts)
    asynchronous, hybrid_off = facts.async_scheduling, facts.disable_hybrid_kv_cache_manager
    return EngineFlags(
        version=release_of(facts.vllm_version or engine.vllm_version),
        dtype=_known_dtype(facts.dtype or engine.dtype),
        kv_cache_dtype=_known_dtype(facts.cache_dtype or engine.kv_cache_dtype),
        tensor_parallel_size=facts.tensor_parallel_size or engine.tensor_parallel_size,
        pipeline_parallel_size=facts.pipeline_parallel_size or engine.pipeline_parallel_size,
        data_parallel_size=facts.data_parallel_size or engine.data_parallel_size,
        decode_context_parallel_size=facts.decode_context_parallel_size
        or engine.decode_context_parallel_size,
        block_size_tokens=facts.block_size_tokens or engine.block_size_tokens,
        max_model_len=facts.max_model_len or engine.max_model_len,
        max_num_seqs=facts.max_num_seqs or engine.max_num_seqs,
        max_num_batched_tokens=facts.max_num_batched_tokens or engine.max_num_batched_tokens,
        async_scheduling=engine.async_scheduling if asynchronous is None else asynchronous,
        prefix_caching=engine.enable_prefix_caching if facts.prefix_caching is None else facts.prefix_caching,
        hybrid_manager=not (engine.disable_hybrid_kv_cache_manager if hybrid_off is None else hybrid_off),
        num_gpu_blocks_override=facts.num_gpu_blocks_override or engine.num_gpu_blocks_override,
        speculative_tokens=drafter.tokens,
        speculative_layers=drafter.layers(model),
        mamba_ssm_cache_dtype=_known_dtype(facts.mamba_ssm_cache_dtype or engine.mamba_ssm_cache_dtype),
        enforce_eager=engine.enforce_eager if facts.enforce_eager is None else facts.enforce_eager,
        utilization=facts.gpu_memory_utilization_ratio or engine.gpu_memory_utilization_ratio,
    )


def _drafter(engine: EngineConfig, facts: EngineFacts) -> Speculation:
    if facts.speculative_tokens:
        return Speculation(facts.speculative_tokens, facts.speculative_method or "mtp")
    config = engine.speculative_config
    return Speculation(config.num_speculative_tokens, config.method) if config else Speculation()


def _inputs(engine: EngineConfig, facts: EngineFacts, logged_pool_bytes: int | None) -> PoolInputs:
    return PoolInputs(
        kv_cache_memory_bytes=facts.kv_cache_memory_bytes
        or engine.kv_cache_memory_bytes
        or logged_pool_bytes,
        gpu_memory_bytes=engine.gpu_memory_bytes,
        weights_bytes=engine.weights_memory_bytes,
        parameters=engine.parameters,
        quantization=facts.quantization if facts.quantization in QUANTIZATION_BYTES else engine.quantization,
        headroom_bytes=engine.headroom_bytes,
    )


def _known_dtype(name: str | None) -> str:
    return name if name in DTYPE_BYTES else "auto"


def _unread(flags: EngineFlags) -> Iterator[EngineFlags]:
    batched = (flags.max_num_batched_tokens,) if flags.max_num_batched_tokens else _BATCHED_TOKENS
    scheduling = (True, False) if flags.async_scheduling is None else (flags.async_scheduling,)
    for asynchronous in scheduling:
        for tokens in batched:
            yield replace(flags, async_scheduling=asynchronous, max_num_batched_tokens=tokens)


def _comes_out(prediction: PoolPrediction, facts: EngineFacts) -> bool:
    if not (facts.num_gpu_blocks and facts.kv_max_concurrency and facts.max_model_len):
        return False
    concurrency = prediction.layout.max_concurrency(facts.num_gpu_blocks, facts.max_model_len)
    return abs(concurrency / facts.kv_max_concurrency - 1) < _SAME_RATIO
