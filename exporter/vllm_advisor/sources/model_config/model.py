"""A model as its ``config.json`` describes it, as far as memory goes."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.sources.model_config.caches import LayerCache

__all__ = ["ModelConfig", "Quantization", "Weights"]


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a checkpoint's weights are stored.

    Args:
        method: ``fp8``, ``awq``, ``mxfp4`` and so on, as written.
        bits: of a quantized weight, where the config says.
        group_elements: elements that share a scale, where it says.
        scale_bits: of one group's scale, and of its zero point beside whole numbers.
        kv_cache_dtype: what newer engines take for ``--kv-cache-dtype auto`` (ModelOpt, compressed-tensors).
    """

    method: str
    bits: int | None = None
    group_elements: int | None = None
    scale_bits: int = 20
    kv_cache_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """What the number of parameters follows from; elements of the whole model.

    Args:
        embedding: the vocabulary's table, and the output head where it is not the same table.
        attention: every layer's projections, replicated ones apart.
        replicated: what every tensor-parallel rank holds whole.
        mlp: dense feed-forward layers and shared experts.
        experts: routed experts.
        tower: vision and audio encoders, estimated from their width and depth.
        missing: fields that were not given, so that the count is not the model's.
    """

    embedding: int
    attention: int
    replicated: int
    mlp: int
    experts: int
    tower: int
    missing: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """All parameters."""
        parts = self.embedding, self.attention, self.replicated, self.mlp, self.experts, self.tower
        return sum(parts)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model.

    Args:
        name: what the config or its folder calls it.
        caches: what each layer keeps of a sequence, in layer order.
        layers: hidden layers, with or without a cache.
        attention_heads: query heads, all ranks; None where the config does not say.
        attention_width: query heads times head width, all ranks.
        max_len_tokens: the longest sequence that it was made for.
        dtype: of its parameters, as written.
        hidden_size: 0 where the config does not say.
        drafter_layers: that the checkpoint brings for multi-token prediction.
        checkpoint_bytes: of its weights on disk, where they lie beside the config.
        multimodal: whether the language model is one section among others.
        notes: what was assumed while reading.
    """

    name: str
    architecture: str
    model_type: str
    layers: int
    caches: tuple[LayerCache, ...]
    hidden_size: int
    vocab_size: int | None
    intermediate_size: int | None
    attention_width: int
    max_len_tokens: int | None
    dtype: str | None
    quantization: Quantization | None
    weights: Weights
    experts_per_token: int | None = None
    expert_width: int | None = None
    drafter_layers: int = 0
    checkpoint_bytes: int | None = None
    multimodal: bool = False
    attention_heads: int | None = None
    notes: tuple[str, ...] = ()
