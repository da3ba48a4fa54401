"""What else takes a GPU's memory before the pool gets the rest: activations, context, CUDA graphs.

Fitted to 61 starts of vLLM 0.19 on one kind of GPU (8,192 batched tokens, max-num-seqs 1,024) and checked on
others; the sampler's share is what max-num-seqs buys, so the cap is itself a memory parameter.
"""

from __future__ import annotations

from dataclasses import replace

from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.engine_version import GRAPHS_SUBTRACTED, LEAN_SAMPLER, V1
from vllm_advisor.ceilings.estimate import Estimate
from vllm_advisor.ceilings.kv_pages import model_dtype_bytes
from vllm_advisor.sources.model_config import ModelConfig

__all__ = ["activation_peak", "cuda_graphs", "non_torch"]

_GIB = 2**30
_SAMPLER_BYTES = 15
"""Bytes the sampler keeps for one logit at its peak: 14.4 to 15.3 over seven vocabularies."""
_OLD_SAMPLER_BYTES = 38.5
"""The same before `LEAN_SAMPLER`: 38.4 to 38.9 over three vocabularies, 17 on one engine of four."""
_HIDDEN_COPIES = 6
_MAX_CAPTURED = 512
_GRAPHS_AT_FULL = 51
"""Batch sizes captured up to 512: 1, 2, 4, every 8th below 256, every 16th from there."""


def activation_peak(model: ModelConfig, flags: EngineFlags) -> Estimate:
    """Return the peak of the profiling run: the larger of the sampler and the widest layer.

    Both follow the profiling batch: max-num-seqs logits over the vocabulary in float32, and
    max-num-batched-tokens rows through a feed-forward layer. The range reaches down to an A100's defaults
    where flags are left open on a GPU of its size.
    """
    sampled, rows = min(flags.sequences, flags.batched_tokens), flags.batched_tokens
    basis = f"{sampled:,} sequences' logits or {rows:,} batched tokens, whichever is larger"
    if not model.vocab_size:
        basis = f"{rows:,} batched tokens; the sampler is left out, since the config has no vocab_size"
    low_ratio = 0.7 if flags.version >= LEAN_SAMPLER else 0.4
    high_ratio = 1.5 if model.vocab_size else 2.7
    least = flags.with_small_defaults() if flags.takes_large_defaults else flags
    expected = Estimate.around(_peak_bytes(model, flags), low_ratio, high_ratio, basis)
    return replace(expected, low_bytes=int(_peak_bytes(model, least) * low_ratio))


def _peak_bytes(model: ModelConfig, flags: EngineFlags) -> float:
    element_bytes = model_dtype_bytes(model, flags)
    rows = flags.batched_tokens
    hidden_bytes = rows * model.hidden_size * element_bytes
    logit_bytes = _SAMPLER_BYTES if flags.version >= LEAN_SAMPLER else _OLD_SAMPLER_BYTES
    sampler_bytes = logit_bytes * (model.vocab_size or 0) * min(flags.sequences, rows) + hidden_bytes
    return max(sampler_bytes, rows * _widest_row(model, flags) * element_bytes)


def _widest_row(model: ModelConfig, flags: EngineFlags) -> float:
    """Return the elements of one token at the widest place: three times the feed-forward width."""
    width = model.intermediate_size or 4 * model.hidden_size
    inner: float = 3 * max(width, model.attention_width) / flags.tensor_parallel_size
    if model.experts_per_token:
        expert = 3 * (model.expert_width or width) / flags.tensor_parallel_size
        inner = model.experts_per_token * (expert + model.hidden_size)
    return inner + _HIDDEN_COPIES * model.hidden_size


def non_torch(flags: EngineFlags) -> Estimate:
    """Return what the driver's context and the communicators hold: 0.25 GiB alone, 2.1 with tensor ranks."""
    if flags.version < V1:
        return Estimate.around(0.1 * _GIB, 0.1, 5, "seen on engines before 0.8")
    if flags.tensor_parallel_size > 1:
        return Estimate.around(2.1 * _GIB, 0.5, 1.3, "2.07 to 2.21 GiB seen with two and four ranks")
    if flags.pipeline_parallel_size > 1:
        return Estimate.around(0.07 * _GIB, 0.5, 4, "0.07 GiB seen with pipeline stages")
    return Estimate.around(0.25 * _GIB, 0.5, 2, "0.24 to 0.46 GiB seen on one GPU")


def cuda_graphs(model: ModelConfig, flags: EngineFlags) -> Estimate:
    """Return what is set aside for CUDA graphs, nothing before 0.21: by layers and captured batch sizes."""
    if flags.enforce_eager or flags.version < GRAPHS_SUBTRACTED:
        return Estimate(0, 0, 0, "not taken off the pool")
    largest = min(2 * flags.sequences, _MAX_CAPTURED)
    captured = 3 + min(largest, 248) // 8 + max(0, (largest - 240) // 16)
    layers = model.layers / flags.pipeline_parallel_size
    size_bytes = (0.35 + 0.0165 * layers) * _GIB * captured / _GRAPHS_AT_FULL
    return Estimate.around(size_bytes, 0.3, 1.7, f"{captured} batch sizes up to {largest}")
