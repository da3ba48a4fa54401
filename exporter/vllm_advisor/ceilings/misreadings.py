"""Ways to take a model, a flag or a log line for something else, each changing that one thing.

Every function gives the predictions that the other reading leads to, with a sentence that says what the
engine would then be doing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from vllm_advisor.ceilings.engine_version import TOKENS_FROM_CONCURRENCY
from vllm_advisor.ceilings.pool import PoolPrediction, predict_pool
from vllm_advisor.sources.model_config import AttentionCache, LatentCache, LayerCache, Reach

__all__ = ["GUESSES", "MISREADINGS", "Misreading", "Reading"]

_GIB_RATIO = 2**30 / 10**9
_HEAD_WIDTHS = (64, 80, 96, 112, 128, 192, 256)
_LATENT_FAMILIES = re.compile(r"(?i)deepseek|kimi|longcat|glm|mistral")
_UTILIZATIONS = (0.8, 0.85, 0.9, 0.92, 0.95)
_RANKS = (1, 2, 4, 8)
_METHODS = ("fp8", "awq")
_CAPS = (64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Reading:
    """Another reading, and the prediction that it leads to.

    Args:
        says: what would be so, as a sentence.
        prediction: with that one thing changed.
        factor: by which the tokens themselves are read otherwise.
    """

    says: str
    prediction: PoolPrediction
    factor: float = 1.0


Misreading = Callable[[PoolPrediction], Iterator[Reading]]


def kv_dtype(base: PoolPrediction) -> Iterator[Reading]:
    """The cache's element is narrower or wider."""
    for dtype, name in (("fp8", "8 bits"), ("bfloat16", "16 bits"), ("float32", "32 bits")):
        other = predict_pool(base.model, replace(base.flags, kv_cache_dtype=dtype), base.inputs)
        if other.layout.rank_token_bytes != base.layout.rank_token_bytes:
            yield Reading(f"the engine keeps keys and values in {name} (--kv-cache-dtype)", other)


def model_dtype(base: PoolPrediction) -> Iterator[Reading]:
    """Weights, states and cache together are in another width."""
    for dtype in ("bfloat16", "float32"):
        other = _again(base, flags=replace(base.flags, dtype=dtype))
        if other.layout != base.layout:
            yield Reading(f"the engine runs with --dtype {dtype}", other)


def tensor_parallel(base: PoolPrediction) -> Iterator[Reading]:
    """Heads are divided over another number of ranks."""
    for ranks in _RANKS:
        if ranks != base.flags.tensor_parallel_size:
            flags = replace(base.flags, tensor_parallel_size=ranks)
            yield Reading(f"the engine runs with --tensor-parallel-size {ranks}", _again(base, flags=flags))


def context_parallel(base: PoolPrediction) -> Iterator[Reading]:
    """Ranks share a sequence's tokens, so their number multiplies the token line."""
    for ranks in _RANKS:
        shares = base.flags.tensor_parallel_size % ranks == 0
        if shares and ranks != base.flags.decode_context_parallel_size:
            flags = replace(base.flags, decode_context_parallel_size=ranks)
            says = f"the engine runs with --decode-context-parallel-size {ranks}"
            yield Reading(says, _again(base, flags=flags))


def replicated_heads(base: PoolPrediction) -> Iterator[Reading]:
    """With fewer KV heads than ranks each rank holds a whole head, and not a part of one."""
    heads = max((c.kv_heads for c in base.model.caches if isinstance(c, AttentionCache)), default=0)
    copies = base.flags.tensor_parallel_size / heads if heads else 1
    if copies > 1:
        yield Reading("each rank holds a whole KV head, and not a part of one", base, 1 / copies)
        yield Reading("the report counts a KV head once that several ranks hold", base, copies)


def derived_head_width(base: PoolPrediction) -> Iterator[Reading]:
    """The head's width was derived and is written otherwise, or the reverse."""
    widths = _head_widths(base)
    if len(widths) == 1 and base.model.hidden_size:
        heads = base.model.attention_width // min(widths)
        derived = base.model.hidden_size // heads
        if derived not in widths:
            yield _of_width(base, derived)


def guessed_head_width(base: PoolPrediction) -> Iterator[Reading]:
    """The head's width is one of the usual others."""
    widths = _head_widths(base)
    if len(widths) == 1:
        yield from (_of_width(base, width) for width in _HEAD_WIDTHS if width not in widths)


def latent_attention(base: PoolPrediction) -> Iterator[Reading]:
    """One compressed vector a token was taken for full keys and values, or the reverse."""
    caches = base.model.caches
    latent = [cache for cache in caches if isinstance(cache, LatentCache)]
    if latent and all(cache.heads and cache.head_width for cache in latent):
        full = tuple(_in_full(cache) if isinstance(cache, LatentCache) else cache for cache in caches)
        yield Reading(
            "the engine caches full keys and values instead of the latent vector", _with_caches(base, full)
        )
    if _LATENT_FAMILIES.search(base.model.architecture) and not latent:
        for width, rope in ((512, 64), (256, 64)):
            compressed = tuple(LatentCache(cache.layer, width, rope) for cache in caches)
            says = f"the engine caches one latent vector of {width} + {rope} (MLA) instead of full heads"
            yield Reading(says, _with_caches(base, compressed))


def window_layers(base: PoolPrediction) -> Iterator[Reading]:
    """Windows are reserved for in full, or the reverse."""
    flags = replace(base.flags, hybrid_manager=not base.flags.hybrid_manager)
    other = _again(base, flags=flags)
    if other.layout != base.layout:
        name = "as windows" if flags.hybrid_manager else "like full attention"
        yield Reading(f"the engine treats window layers {name} (--disable-hybrid-kv-cache-manager)", other)
    full = tuple(_without_window(cache) for cache in base.model.caches)
    if full != base.model.caches:
        yield Reading("every layer attends in full, windows are not used", _with_caches(base, full))


def tokens_in_flight(base: PoolPrediction) -> Iterator[Reading]:
    """Windows reserve for one batch or two, and state layers for one copy or two."""
    asynchronous = replace(base.flags, async_scheduling=base.flags.async_scheduling is False)
    other = _again(base, flags=asynchronous)
    if other.layout.in_flight_tokens != base.layout.in_flight_tokens and not base.layout.is_plain:
        name = "on" if asynchronous.async_scheduling else "off"
        yield Reading(f"asynchronous scheduling is {name} (--async-scheduling)", other)
    for caching in (True, False):
        other = _again(base, flags=replace(base.flags, prefix_caching=caching))
        if other.layout.groups != base.layout.groups:
            yield Reading(
                f"prefix caching is {'on' if caching else 'off'}, which changes the state's copies", other
            )


def weights_dtype(base: PoolPrediction) -> Iterator[Reading]:
    """Weights are stored in another width."""
    size_bytes = next((s.size.expected_bytes for s in base.shares if s.name == "weights"), None)
    if size_bytes is None:
        return
    for ratio, name in ((0.5, "half"), (2.0, "twice"), (0.25, "a quarter"), (4.0, "four times")):
        inputs = replace(base.inputs, weights_bytes=round(size_bytes * ratio))
        says = f"the weights take {name} of what was counted (--dtype, --quantization)"
        yield Reading(says, _again(base, inputs=inputs))
    for method in _METHODS:
        other = _again(base, inputs=replace(base.inputs, quantization=method))
        if other.pool != base.pool:
            yield Reading(f"the weights are quantized with {method} (--quantization)", other)


def utilization(base: PoolPrediction) -> Iterator[Reading]:
    """The engine may use another share of the GPU."""
    if base.inputs.gpu_memory_bytes is None or base.inputs.kv_cache_memory_bytes is not None:
        return
    for ratio in _UTILIZATIONS:
        if ratio != base.flags.utilization_ratio:
            flags = replace(base.flags, utilization=ratio)
            yield Reading(f"the engine runs with --gpu-memory-utilization {ratio}", _again(base, flags=flags))


def gigabytes(base: PoolPrediction) -> Iterator[Reading]:
    """A size was written in GB and meant GiB, or the reverse."""
    for field in ("gpu_memory_bytes", "kv_cache_memory_bytes", "weights_bytes", "headroom_bytes"):
        size_bytes = getattr(base.inputs, field)
        for ratio, says in ((_GIB_RATIO, "is in GiB, not GB"), (1 / _GIB_RATIO, "is in GB, not GiB")):
            if size_bytes is not None:
                inputs = replace(base.inputs, **{field: round(size_bytes * ratio)})
                yield Reading(f"--{_flag(field)} {says}", _again(base, inputs=inputs))


def whole_or_part(base: PoolPrediction) -> Iterator[Reading]:
    """A size was given for all GPUs and taken for one, or the reverse."""
    ranks = base.flags.tensor_parallel_size * base.flags.pipeline_parallel_size
    if ranks == 1:
        return
    for field in ("gpu_memory_bytes", "kv_cache_memory_bytes", "weights_bytes", "headroom_bytes"):
        size_bytes = getattr(base.inputs, field)
        for ratio, says in ((1 / ranks, "is that of all GPUs"), (ranks, "is that of one GPU")):
            if size_bytes is not None:
                inputs = replace(base.inputs, **{field: round(size_bytes * ratio)})
                yield Reading(f"--{_flag(field)} {says}", _again(base, inputs=inputs))


def sampled_sequences(base: PoolPrediction) -> Iterator[Reading]:
    """Another cap was profiled, so the sampler takes another share."""
    if base.inputs.headroom_bytes is not None or base.inputs.kv_cache_memory_bytes is not None:
        return
    for cap in _CAPS:
        if cap != base.flags.sequences:
            yield Reading(f"the engine runs with --max-num-seqs {cap}", base.with_max_num_seqs(cap))


def line_of_another_version(base: PoolPrediction) -> Iterator[Reading]:
    """The token line changed its meaning in 0.21; and engines of a deployment may have been added up."""
    is_new = base.layout.version >= TOKENS_FROM_CONCURRENCY
    version = (0, 20) if is_new else TOKENS_FROM_CONCURRENCY
    if not base.layout.is_plain:
        name = "blocks of one group (before 0.21)" if is_new else "concurrency times length (from 0.21)"
        other = replace(base, layout=replace(base.layout, version=version))
        yield Reading(f"the token line counts {name}", other)
    if (engines := base.flags.data_parallel_size) > 1:
        yield Reading(f"the report is the sum over {engines} data-parallel engines", base, float(engines))
    if (ranks := base.flags.decode_context_parallel_size) > 1:
        yield Reading("the report leaves decode context parallelism out", base, 1 / ranks)


MISREADINGS: tuple[Misreading, ...] = (
    kv_dtype,
    tensor_parallel,
    derived_head_width,
    latent_attention,
    window_layers,
    tokens_in_flight,
    weights_dtype,
    utilization,
    gigabytes,
    whole_or_part,
    sampled_sequences,
    replicated_heads,
    line_of_another_version,
)
"""What may come together; those that change only how tokens are read stand last, since a layout made anew
forgets them."""
GUESSES: tuple[Misreading, ...] = (model_dtype, context_parallel, guessed_head_width)
"""Readings that are rare, or have nothing but the figures for them: tried alone and last."""


def _again(base: PoolPrediction, **changes: object) -> PoolPrediction:
    changed = replace(base, **changes)  # type: ignore[arg-type]
    return predict_pool(changed.model, changed.flags, changed.inputs)


def _with_caches(base: PoolPrediction, caches: tuple[LayerCache, ...]) -> PoolPrediction:
    return _again(base, model=replace(base.model, caches=caches))


def _head_widths(base: PoolPrediction) -> set[int]:
    return {cache.key_width for cache in base.model.caches if isinstance(cache, AttentionCache)}


def _of_width(base: PoolPrediction, width: int) -> Reading:
    caches = tuple(_with_width(cache, width) for cache in base.model.caches)
    return Reading(f"the heads are {width} wide (head_dim)", _with_caches(base, caches))


def _with_width(cache: LayerCache, width: int) -> LayerCache:
    return replace(cache, key_width=width, value_width=width) if isinstance(cache, AttentionCache) else cache


def _in_full(cache: LatentCache) -> AttentionCache:
    return AttentionCache(cache.layer, Reach.FULL, cache.heads, cache.head_width, cache.head_width)


def _without_window(cache: LayerCache) -> LayerCache:
    if isinstance(cache, AttentionCache) and cache.reach in {Reach.SLIDING, Reach.CHUNKED}:
        return replace(cache, reach=Reach.FULL, reach_tokens=None)
    return cache


def _flag(field: str) -> str:
    return field.removesuffix("_bytes").replace("_", "-").replace("weights", "weights-memory")
