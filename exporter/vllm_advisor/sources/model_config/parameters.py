"""Counts a model's parameters from its config."""

from __future__ import annotations

from vllm_advisor.sources.model_config.caches import StateKind
from vllm_advisor.sources.model_config.fields import Fields
from vllm_advisor.sources.model_config.model import Weights
from vllm_advisor.sources.model_config.names import (
    EXPERT_WIDTH,
    EXPERTS,
    FEED_FORWARD,
    HEAD_WIDTH,
    HEADS,
    HIDDEN,
    KV_HEADS,
    VOCABULARY,
)
from vllm_advisor.sources.model_config.pattern import LayerKind, layer_kinds
from vllm_advisor.sources.model_config.states import state_cache

__all__ = ["count_weights"]

_UNGATED = {
    "opt",
    "gpt2",
    "gptj",
    "gpt_bigcode",
    "gpt_neox",
    "bloom",
    "falcon",
    "mpt",
    "starcoder2",
    "phi",
    "persimmon",
    "whisper",
    "nemotron",
    "nemotron_h",
    "arcee",
}
"""Families whose feed-forward layers have two matrices, not three."""
_FOUR_TIMES = {"gpt2", "gptj", "gpt_bigcode", "bloom", "falcon", "mpt"}
"""Families whose feed-forward layers are four times as wide as the model where nothing else is written."""
_TWICE = {"longcat_flash", "longcat_flash_ngram"}
"""Families whose every layer has two attentions and two dense feed-forward layers, beside its experts."""


def count_weights(text: Fields, outer: Fields, model_type: str, layers: int) -> Weights:
    """Count parameters by what they are; norms, biases and routers are too few to matter.

    Returns:
        The count, with the names of the fields it lacked in ``missing``.
    """
    hidden = text.optional_count(*HIDDEN) or 0
    vocab = text.optional_count(*VOCABULARY) or 0
    kinds = layer_kinds(text, model_type, layers)
    attention, replicated = _attention(text, hidden)
    attending = _attending(text, model_type, kinds)
    states = kinds.count(LayerKind.STATE) + kinds.count(LayerKind.STATE_AND_FULL)
    mlp, experts, missing = _feed_forward(text, model_type, layers, hidden, kinds)
    tied = text.get("tie_word_embeddings") or outer.get("tie_word_embeddings")
    return Weights(
        embedding=vocab * hidden * (1 if tied else 2)
        + (text.optional_count("vocab_size_per_layer_input") or 0)
        * (text.optional_count("hidden_size_per_layer_input") or 0)
        * layers,
        attention=attending * attention + (states and states * _state(text, hidden)),
        replicated=attending * replicated,
        mlp=mlp,
        experts=experts,
        tower=_towers(outer) + _encoder(text, hidden),
        missing=(*(() if hidden else ("hidden_size",)), *missing, *(() if vocab else ("vocab_size",))),
    )


def _attending(text: Fields, model_type: str, kinds: tuple[LayerKind, ...]) -> int:
    """Return how many attentions have weights of their own; an encoder-decoder's layers have two."""
    beside = kinds.count(LayerKind.STATE_AND_FULL)
    shared = _shared_blocks(text)
    own = sum(kind in {LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED} for kind in kinds)
    each = 2 if model_type in _TWICE or text.get("max_source_positions") else 1
    return own * each + (beside if shared is None else shared)


def _shared_blocks(text: Fields) -> int | None:
    """Zamba's attention and feed-forward layers, of which there are a few that take turns."""
    named = text.get("num_mem_blocks", "hybrid_layer_ids")
    return (text.optional_count("num_mem_blocks") or 2) if named else None


def _attention(text: Fields, hidden: int) -> tuple[int, int]:
    """Return one layer's projections: those that ranks divide, and those that each holds."""
    heads = text.optional_count(*HEADS) or 1
    width = text.optional_count(*HEAD_WIDTH) or hidden // heads
    if latent := text.optional_count("kv_lora_rank"):
        return _latent_attention(text, hidden, heads, latent)
    kv_heads = text.get(*KV_HEADS)
    kv_heads = kv_heads if isinstance(kv_heads, int) else (1 if text.get("multi_query") else heads)
    gate = heads if text.get("full_attention_interval") else 0
    read = text.optional_count("attention_hidden_size") or hidden
    return width * (read * (heads + 2 * kv_heads + gate) + hidden * heads), 0


def _latent_attention(text: Fields, hidden: int, heads: int, latent: int) -> tuple[int, int]:
    rope = text.optional_count("qk_rope_head_dim") or 0
    nope = text.optional_count("qk_nope_head_dim") or 0
    value = text.optional_count("v_head_dim") or nope
    query = text.optional_count("q_lora_rank")
    down = hidden * (latent + rope) + (hidden * query if query else 0)
    up = heads * (latent * (nope + value) + (query or hidden) * (nope + rope))
    index = text.optional_count("index_head_dim") or 0
    indexer = index * (hidden + (query or hidden) * (text.optional_count("index_n_heads") or 0))
    return up + heads * value * hidden, down + indexer


def _state(text: Fields, hidden: int) -> int:
    """Return one state layer's projections: what enters the convolution, the gate, and back out."""
    cache = state_cache(text, 0)
    entering = sum(part.sharded + part.grouped * part.groups for part in cache.parts if not part.recurrent)
    if cache.kind is StateKind.SHORT_CONVOLUTION:
        return 4 * hidden * entering
    if cache.kind is StateKind.LIGHTNING:
        return 5 * hidden * text.count("num_attention_heads") * text.count("head_dim")
    if cache.kind is StateKind.DELTA_NET:
        inner = text.count("linear_num_value_heads") * text.count("linear_value_head_dim")
    elif cache.kind is StateKind.KIMI_DELTA:
        return hidden * (entering + entering // 3)
    else:
        inner = cache.parts[0].sharded
    return hidden * (entering + 2 * inner)


def _feed_forward(
    text: Fields, model_type: str, layers: int, hidden: int, kinds: tuple[LayerKind, ...]
) -> tuple[int, int, tuple[str, ...]]:
    """Return dense and shared parameters, routed experts' parameters, and which fields were missing."""
    if set(kinds) == {LayerKind.STATE} and text.get("state_size"):
        return 0, 0, ()
    matrices = 2 if model_type in _UNGATED else 3
    width = _width(text, model_type, hidden)
    routed = text.mean_count(*EXPERTS)
    carrying = _shared_blocks(text) or kinds.count(LayerKind.NONE) or layers
    if not routed or routed == 1:
        return carrying * matrices * hidden * (width or 0), 0, () if width else ("intermediate_size",)
    expert = text.mean_count(*EXPERT_WIDTH, *FEED_FORWARD)
    sparse = _sparse_layers(text, carrying)
    shared_width = text.optional_count("shared_expert_intermediate_size", "shared_intermediate_size") or (
        (
            text.mean_count("n_shared_experts", "num_shared_expert", "num_shared_experts")
            or (model_type == "llama4_text")
        )
        * (expert or 0)
    )
    dense_width = text.mean_count("intermediate_size_mlp", *FEED_FORWARD) or 0
    dense = (carrying - sparse) * dense_width + sparse * shared_width
    if model_type in _TWICE:
        dense = 2 * layers * dense_width
    experts = sparse * routed * matrices * hidden * (expert or 0)
    return matrices * hidden * dense, experts, () if expert else ("moe_intermediate_size",)


def _width(text: Fields, model_type: str, hidden: int) -> int | None:
    width = text.mean_count(*FEED_FORWARD)
    if width is None:
        return 4 * hidden if model_type in _FOUR_TIMES else None
    if model_type == "qwen":
        return width // 2
    if text.get("block_auto_adjust_ff_dim") and text.get("conv_L_cache"):
        step = text.optional_count("block_multiple_of") or 256
        return -(-2 * width // 3 // step) * step
    return width


def _sparse_layers(text: Fields, layers: int) -> int:
    if first := text.optional_count("first_k_dense_replace", "num_dense_layers"):
        return layers - first
    if listed := text.counts("moe_layers"):
        return len(listed)
    step = (
        text.optional_count("interleave_moe_layer_step")
        or text.optional_count("decoder_sparse_step")
        or text.optional_count("expert_layer_period")
        or text.optional_count("moe_layer_frequency")
        or 1
    )
    return layers // step


def _towers(outer: Fields) -> int:
    """Estimate encoders as plain transformers: 4 x width^2 of attention and their feed-forward layers."""
    total = 0
    for name in ("vision_config", "vision_encoder", "audio_config", "visual", "vit_config"):
        tower = outer.section(name)
        width = tower.get("embed_dim", "hidden_size", "d_model", "width")
        depth = tower.get("num_hidden_layers", "depth", "encoder_layers", "layers")
        if isinstance(width, int) and isinstance(depth, int):
            inner = tower.get("intermediate_size", "encoder_ffn_dim")
            inner = inner if isinstance(inner, int) else 4 * width
            total += depth * (4 * width * width + 2 * width * inner)
    return total


def _encoder(text: Fields, hidden: int) -> int:
    depth = text.optional_count("encoder_layers") or 0
    inner = text.optional_count("encoder_ffn_dim") or 4 * hidden
    return depth * (4 * hidden * hidden + 2 * hidden * inner)
