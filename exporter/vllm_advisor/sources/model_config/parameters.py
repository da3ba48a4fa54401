"""Counts a model's parameters from its config."""

from __future__ import annotations

from vllm_advisor.sources.model_config.fields import Fields
from vllm_advisor.sources.model_config.model import Weights
from vllm_advisor.sources.model_config.pattern import LayerKind, layer_kinds

__all__ = ["count_weights"]

_UNGATED = {
    "opt",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "bloom",
    "falcon",
    "mpt",
    "starcoder2",
    "phi",
    "whisper",
    "nemotron",
    "nemotron_h",
}
"""Families whose feed-forward layers have two matrices, not three."""
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")


def count_weights(text: Fields, outer: Fields, model_type: str, layers: int) -> Weights:
    """Count parameters by what they are; norms, biases and routers are too few to matter.

    Returns:
        The count, with the names of the fields it lacked in ``missing``.
    """
    hidden = text.optional_count(*_HIDDEN) or 0
    vocab = text.optional_count("vocab_size", "padded_vocab_size") or 0
    kinds = layer_kinds(text, model_type, layers)
    attention, replicated = _attention(text, hidden)
    attending = sum(kind in {LayerKind.FULL, LayerKind.SLIDING, LayerKind.CHUNKED} for kind in kinds)
    both = kinds.count(LayerKind.STATE_AND_FULL)
    states = kinds.count(LayerKind.STATE) + both
    mlp, experts, missing = _feed_forward(text, model_type, layers, hidden, kinds)
    tied = text.get("tie_word_embeddings") or outer.get("tie_word_embeddings")
    return Weights(
        embedding=vocab * hidden * (1 if tied else 2)
        + (text.optional_count("vocab_size_per_layer_input") or 0)
        * (text.optional_count("hidden_size_per_layer_input") or 0)
        * layers,
        attention=(attending + both) * attention + states * _state(text, hidden),
        replicated=(attending + both) * replicated,
        mlp=mlp,
        experts=experts,
        tower=_towers(outer),
        missing=(*(() if hidden else ("hidden_size",)), *missing, *(() if vocab else ("vocab_size",))),
    )


def _attention(text: Fields, hidden: int) -> tuple[int, int]:
    """Return one layer's projections: those that ranks divide, and those that each holds."""
    heads = text.optional_count(*_HEADS) or 1
    width = text.optional_count("head_dim", "attention_head_dim", "kv_channels") or hidden // heads
    if latent := text.optional_count("kv_lora_rank"):
        return _latent_attention(text, hidden, heads, latent)
    kv_heads = text.get("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    kv_heads = kv_heads if isinstance(kv_heads, int) else (1 if text.get("multi_query") else heads)
    gate = heads if text.get("full_attention_interval") else 0
    return hidden * width * (2 * heads + 2 * kv_heads + gate), 0


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
    """Return one state layer's projections in and out."""
    if text.get("linear_num_value_heads"):
        value = text.count("linear_num_value_heads") * text.count("linear_value_head_dim")
        key = text.count("linear_num_key_heads") * text.count("linear_key_head_dim")
        return hidden * (3 * value + 2 * key)
    stated = text.optional_count("intermediate_size") if text.get("state_size") else None
    expanded = (text.optional_count("mamba_expand", "expand") or 2) * hidden
    return 3 * hidden * (text.optional_count("mamba_d_ssm") or stated or expanded)


def _feed_forward(
    text: Fields, model_type: str, layers: int, hidden: int, kinds: tuple[LayerKind, ...]
) -> tuple[int, int, tuple[str, ...]]:
    """Return dense and shared parameters, routed experts' parameters, and which fields were missing."""
    if set(kinds) == {LayerKind.STATE} and text.get("state_size"):
        return 0, 0, ()
    matrices = 2 if model_type in _UNGATED else 3
    width = _width(text, hidden)
    routed = text.optional_count("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
    carrying = kinds.count(LayerKind.NONE) if LayerKind.NONE in kinds else layers
    if not routed or routed == 1:
        return carrying * matrices * hidden * (width or 0), 0, () if width else ("intermediate_size",)
    expert = text.optional_count("moe_intermediate_size", "intermediate_size", "ffn_dim")
    sparse = _sparse_layers(text, carrying)
    shared_width = text.optional_count("shared_expert_intermediate_size", "shared_intermediate_size") or (
        (text.optional_count("n_shared_experts") or (model_type == "llama4_text")) * (expert or 0)
    )
    dense_width = text.optional_count("intermediate_size_mlp", "intermediate_size", "ffn_dim") or 0
    dense = (carrying - sparse) * dense_width + sparse * shared_width
    experts = sparse * routed * matrices * hidden * (expert or 0)
    return matrices * hidden * dense, experts, () if expert else ("moe_intermediate_size",)


def _width(text: Fields, hidden: int) -> int | None:
    names = "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "decoder_ffn_dim"
    if isinstance(text.get(*names), list):
        widths = text.counts(*names)
        return sum(widths) // len(widths) if widths else None
    return text.optional_count(*names) or (4 * hidden if text.get("n_embd") else None)


def _sparse_layers(text: Fields, layers: int) -> int:
    if first := text.optional_count("first_k_dense_replace"):
        return layers - first
    if listed := text.counts("moe_layers"):
        return len(listed)
    step = (
        text.optional_count("interleave_moe_layer_step")
        or text.optional_count("decoder_sparse_step")
        or text.optional_count("expert_layer_period")
        or 1
    )
    return layers // step


def _towers(outer: Fields) -> int:
    """Estimate encoders as plain transformers: 4 x width^2 of attention and their feed-forward layers."""
    total = 0
    for name in ("vision_config", "audio_config", "visual", "vit_config"):
        tower = outer.section(name)
        width = tower.get("hidden_size", "embed_dim", "d_model", "width")
        depth = tower.get("num_hidden_layers", "depth", "encoder_layers", "layers")
        if isinstance(width, int) and isinstance(depth, int):
            inner = tower.get("intermediate_size", "encoder_ffn_dim")
            inner = inner if isinstance(inner, int) else 4 * width
            total += depth * (4 * width * width + 2 * width * inner)
    return total
