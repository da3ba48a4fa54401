"""What each layer of a model keeps of a sequence, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vllm_advisor.sources.model_config.caches import AttentionCache, LatentCache, LayerCache, Reach
from vllm_advisor.sources.model_config.fields import Fields
from vllm_advisor.sources.model_config.names import HEAD_WIDTH, HEADS, HIDDEN, KV_HEADS
from vllm_advisor.sources.model_config.pattern import LayerKind, layer_kinds
from vllm_advisor.sources.model_config.states import state_cache

__all__ = ["layer_caches"]

_REACH = {LayerKind.SLIDING: Reach.SLIDING, LayerKind.CHUNKED: Reach.CHUNKED}
_NO_LATENT = {"minicpm3"}
"""Families with ``kv_lora_rank`` whose full keys and values vLLM caches all the same."""
_TWO_ATTENTIONS = {"longcat_flash", "longcat_flash_ngram"}
"""Families whose every layer attends twice."""


def layer_caches(text: Fields, model_type: str, layers: int) -> tuple[LayerCache, ...]:
    """Return the caches of a model's layers, those of shared layers left out.

    Raises:
        InputError: a field that a cache's size follows from is missing.
    """
    kinds = layer_kinds(text, model_type, layers)
    own = layers - _borrowing_layers(text, layers)
    attentions = 2 if model_type in _TWO_ATTENTIONS else 1
    caches = tuple(
        cache
        for layer, kind in enumerate(kinds)
        for cache in (*_caches_of_layer(text, model_type, layer, kind),) * attentions
        if layer < own
    )
    if not caches:
        raise text.problem("num_hidden_layers", "counts no layer that keeps anything of a sequence")
    return caches


def _borrowing_layers(text: Fields, layers: int) -> int:
    """The last layers that read an earlier layer's keys and values (Gemma 3n and 4)."""
    return min(text.optional_count("num_kv_shared_layers") or 0, layers)


def _caches_of_layer(text: Fields, model_type: str, layer: int, kind: LayerKind) -> Iterator[LayerCache]:
    if kind in {LayerKind.STATE, LayerKind.STATE_AND_FULL}:
        yield state_cache(text, layer)
    if kind in {LayerKind.STATE, LayerKind.NONE} or _is_skipped(text, layer):
        return
    if text.get("kv_lora_rank") and model_type not in _NO_LATENT:
        yield _latent(text, layer)
        return
    yield _attention(text, model_type, layer, kind)
    if encoder_tokens := text.optional_count("max_source_positions"):
        shape = _heads(text, model_type, layer, LayerKind.FULL)
        yield AttentionCache(
            layer, Reach.CROSS, shape.kv_heads, shape.key_width, shape.value_width, encoder_tokens
        )


def _latent(text: Fields, layer: int) -> LatentCache:
    rope = text.count("qk_rope_head_dim")
    return LatentCache(
        layer,
        latent_width=text.count("kv_lora_rank"),
        rope_width=rope,
        index_width=text.optional_count("index_head_dim") or 0,
        heads=text.optional_count(*HEADS) or 0,
        head_width=rope + (text.optional_count("qk_nope_head_dim") or 0),
    )


def _attention(text: Fields, model_type: str, layer: int, kind: LayerKind) -> AttentionCache:
    shape = _heads(text, model_type, layer, kind)
    reach_tokens = None
    if kind is LayerKind.SLIDING:
        reach_tokens = text.count("sliding_window", "sliding_window_size")
    elif kind is LayerKind.CHUNKED:
        reach_tokens = text.count("attention_chunk_size")
    reach = _REACH.get(kind, Reach.FULL)
    return AttentionCache(layer, reach, shape.kv_heads, shape.key_width, shape.value_width, reach_tokens)


@dataclass(frozen=True, slots=True)
class _Heads:
    kv_heads: int
    key_width: int
    value_width: int


def _heads(text: Fields, model_type: str, layer: int, kind: LayerKind) -> _Heads:
    if model_type == "minicpm3":
        width = text.count("qk_nope_head_dim") + text.count("qk_rope_head_dim")
        return _Heads(text.count(*HEADS), width, width)
    if kind is LayerKind.SLIDING and text.get("swa_num_key_value_heads"):
        width = text.count("swa_head_dim", "head_dim")
        value = text.optional_count("swa_v_head_dim", "v_head_dim") or width
        return _Heads(text.count("swa_num_key_value_heads"), width, value)
    if kind is LayerKind.FULL and text.get("global_head_dim"):
        width = text.count("global_head_dim")
        return _Heads(
            text.optional_count("num_global_key_value_heads") or _kv_heads(text, layer), width, width
        )
    if kind is LayerKind.SLIDING and (other := text.section("attention_other_setting")).given:
        width = other.optional_count(*HEAD_WIDTH) or _key_width(text)
        return _Heads(other.count("num_attention_groups"), width, width)
    width = _key_width(text)
    return _Heads(_kv_heads(text, layer), width, text.optional_count("v_head_dim") or width)


def _key_width(text: Fields) -> int:
    """Read the head width, and derive it only where no config field or class default gives it."""
    if width := text.optional_count(*HEAD_WIDTH):
        return width
    hidden, heads = text.count(*HIDDEN), text.count(*HEADS)
    if hidden < heads:
        raise text.problem("head_dim", f"is missing, and {heads:,} heads do not fit a width of {hidden:,}")
    return hidden // heads


def _kv_heads(text: Fields, layer: int) -> int:
    block = _block(text, layer)
    if isinstance(block.get("n_heads_in_group"), int):
        return text.count(*HEADS) // block.count("n_heads_in_group")
    value = text.get(*KV_HEADS)
    if isinstance(value, list):
        heads = text.counts(*KV_HEADS)
        return heads[layer] if layer < len(heads) and heads[layer] > 0 else 1
    if text.get("multi_query") and not text.get("new_decoder_architecture") and value is None:
        return 1
    return text.optional_count(*KV_HEADS) or text.count(*HEADS)


def _block(text: Fields, layer: int) -> Fields:
    """Return the attention section of a layer described on its own (Nemotron-NAS ``block_configs``)."""
    blocks = text.get("block_configs")
    here = blocks[layer] if isinstance(blocks, list) and layer < len(blocks) else {}
    return Fields(here if isinstance(here, dict) else {}, {}, text.path, text.prefix).section("attention")


def _is_skipped(text: Fields, layer: int) -> bool:
    block = _block(text, layer)
    return bool(block.get("no_op") or block.get("replace_with_linear"))
