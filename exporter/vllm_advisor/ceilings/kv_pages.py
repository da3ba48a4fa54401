"""What one rank stores for one layer: bytes of a token, or of a state (vLLM ``v1/kv_cache_interface.py``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from vllm_advisor.ceilings.engine_flags import DTYPE_BYTES, EngineFlags
from vllm_advisor.ceilings.engine_version import (
    CHECKPOINT_KV_DTYPE,
    CHUNKED_GROUPS,
    FLOAT32_STATE,
    GROUPS,
    LATENT_CACHE,
    SCHEME_KV_DTYPE,
    SPARSE_KV_AS_MODEL,
    V1,
)
from vllm_advisor.sources.model_config import (
    AttentionCache,
    LatentCache,
    ModelConfig,
    Reach,
    StateCache,
    StateKind,
    StatePart,
)

__all__ = ["Keeps", "LayerSpec", "layer_specs", "model_dtype_bytes"]

_INDEX_SCALE_ELEMENTS = 128
_SCALE_BYTES = 4


class Keeps(StrEnum):
    """What a layer keeps, which decides how many blocks a request takes."""

    FULL = "full attention"
    LATENT = "latent attention"
    SLIDING = "sliding window"
    CHUNKED = "chunked attention"
    CROSS = "cross attention"
    STATE = "state"


_KEEPS = {
    Reach.FULL: Keeps.FULL,
    Reach.SLIDING: Keeps.SLIDING,
    Reach.CHUNKED: Keeps.CHUNKED,
    Reach.CROSS: Keeps.CROSS,
}


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer's cache on one rank.

    Args:
        token_bytes: of one token, 0 for a state.
        state_bytes: of one sequence's state, 0 for attention.
        reach_tokens: window, chunk or encoder length.
        checkpointed: whether the state at the end of a prefill takes a block of its own.
    """

    layer: int
    keeps: Keeps
    token_bytes: int
    state_bytes: int = 0
    reach_tokens: int | None = None
    checkpointed: bool = False


def layer_specs(model: ModelConfig, flags: EngineFlags) -> tuple[LayerSpec, ...]:
    """Return what each layer with a cache stores on one rank, and what the engine takes it for."""
    specs = tuple(spec for cache in model.caches for spec in _specs(model, cache, flags))
    if flags.speculative_layers:
        specs += _drafter(specs, model.layers, flags.speculative_layers)
    return _without_windows(specs, flags)


def model_dtype_bytes(model: ModelConfig, flags: EngineFlags) -> int:
    """Return bytes of one activation; ``auto`` takes a float32 checkpoint down to 16 bits."""
    if flags.dtype != "auto":
        return DTYPE_BYTES[flags.dtype]
    return 2 if model.dtype in {None, "float32"} else DTYPE_BYTES.get(str(model.dtype), 2)


def _cache_dtype(model: ModelConfig, flags: EngineFlags) -> str:
    """Return what ``--kv-cache-dtype`` comes to; ``auto`` where it is the model's own."""
    checkpoint = model.quantization
    if flags.kv_cache_dtype == "auto" and checkpoint and checkpoint.kv_cache_dtype:
        since = CHECKPOINT_KV_DTYPE if checkpoint.method.startswith("modelopt") else SCHEME_KV_DTYPE
        return checkpoint.kv_cache_dtype if flags.version >= since else "auto"
    return flags.kv_cache_dtype


def _head_bytes(width: int, dtype: str, element_bytes: int) -> int:
    """Return one head's vector: two FP4 elements a byte with a scale for 16, or one scale for the whole."""
    if dtype == "nvfp4":
        return width // 2 + width // 16
    return width * element_bytes + (_SCALE_BYTES if dtype.endswith("_per_token_head") else 0)


def _specs(
    model: ModelConfig, cache: AttentionCache | LatentCache | StateCache, flags: EngineFlags
) -> Iterator[LayerSpec]:
    dtype = _cache_dtype(model, flags)
    element_bytes = model_dtype_bytes(model, flags) if dtype == "auto" else DTYPE_BYTES[dtype]
    if isinstance(cache, StateCache):
        size_bytes = _state_bytes(cache, model_dtype_bytes(model, flags), flags)
        mamba2 = cache.kind is StateKind.MAMBA2
        yield LayerSpec(cache.layer, Keeps.STATE, 0, size_bytes, checkpointed=mamba2)
    elif isinstance(cache, LatentCache):
        yield from _latent(cache, element_bytes, flags)
    else:
        heads = max(1, cache.kv_heads // flags.tensor_parallel_size)
        widths = cache.key_width, cache.value_width
        token_bytes = heads * sum(_head_bytes(width, dtype, element_bytes) for width in widths)
        yield LayerSpec(cache.layer, _KEEPS[cache.reach], token_bytes, reach_tokens=cache.reach_tokens)


def _latent(cache: LatentCache, element_bytes: int, flags: EngineFlags) -> Iterator[LayerSpec]:
    """Every rank holds the whole vector; V0 padded it to 640, and before 0.7 cached full keys and values."""
    if flags.version < LATENT_CACHE and cache.heads:
        padded_width = math.ceil(cache.head_width / 64) * 64
        heads = max(1, cache.heads // flags.tensor_parallel_size)
        yield LayerSpec(cache.layer, Keeps.FULL, heads * 2 * padded_width * element_bytes)
        return
    width = cache.latent_width + cache.rope_width
    if flags.version < V1:
        width = math.ceil(width / 128) * 128
    token_bytes = width * element_bytes
    in_eight_bits = element_bytes == 1 or (
        flags.kv_cache_dtype == "auto" and flags.version < SPARSE_KV_AS_MODEL
    )
    if cache.index_width and in_eight_bits:
        scales = cache.latent_width // _INDEX_SCALE_ELEMENTS
        token_bytes = cache.latent_width + scales * _SCALE_BYTES + 2 * cache.rope_width
    yield LayerSpec(cache.layer, Keeps.LATENT, token_bytes)
    if cache.index_width:
        scales = cache.index_width // _INDEX_SCALE_ELEMENTS
        yield LayerSpec(cache.layer, Keeps.LATENT, cache.index_width + scales * _SCALE_BYTES)


def _state_bytes(cache: StateCache, model_bytes: int, flags: EngineFlags) -> int:
    ranks = flags.tensor_parallel_size
    recurrent_bytes = _recurrent_dtype_bytes(cache, model_bytes, flags)
    return sum(
        part.sharded // ranks * recurrent_bytes
        if part.recurrent
        else (part.taps + flags.speculative_tokens) * _row(part, ranks) * model_bytes
        for part in cache.parts
    )


def _row(part: StatePart, ranks: int) -> int:
    groups = part.groups // ranks if part.groups % ranks == 0 else 1
    return part.sharded // ranks + part.grouped * groups


def _recurrent_dtype_bytes(cache: StateCache, model_bytes: int, flags: EngineFlags) -> int:
    if flags.mamba_ssm_cache_dtype != "auto":
        return DTYPE_BYTES[flags.mamba_ssm_cache_dtype]
    if cache.dtype in DTYPE_BYTES:
        return DTYPE_BYTES[cache.dtype]
    if cache.kind is StateKind.KIMI_DELTA:
        return DTYPE_BYTES["float32"]
    if cache.kind is StateKind.LIGHTNING or flags.version < FLOAT32_STATE:
        return model_bytes
    return DTYPE_BYTES["float32"]


def _drafter(specs: tuple[LayerSpec, ...], layers: int, added: int) -> tuple[LayerSpec, ...]:
    """A drafter's layers attend in full and look like the model's own."""
    own = next((spec for spec in reversed(specs) if spec.keeps in {Keeps.FULL, Keeps.LATENT}), None)
    return tuple(replace(own, layer=layers + index) for index in range(added)) if own else ()


def _without_windows(specs: tuple[LayerSpec, ...], flags: EngineFlags) -> tuple[LayerSpec, ...]:
    """Take windows for full attention where the engine does so (``unify_hybrid_kv_cache_specs``)."""
    mixed = any(spec.keeps is Keeps.FULL for spec in specs)
    widened = set[Keeps]()
    if (not flags.hybrid_manager and mixed) or flags.version < GROUPS:
        widened = {Keeps.SLIDING, Keeps.CHUNKED}
    elif flags.version < CHUNKED_GROUPS:
        widened = {Keeps.CHUNKED}
    return tuple(
        replace(spec, keeps=Keeps.FULL, reach_tokens=None) if spec.keeps in widened else spec
        for spec in specs
    )
