"""The state that a Mamba-like layer keeps of each sequence (vLLM ``layers/mamba/mamba_utils.py``)."""

from __future__ import annotations

from vllm_advisor.sources.model_config.caches import StateCache, StateKind, StatePart
from vllm_advisor.sources.model_config.fields import Fields

__all__ = ["state_cache"]


def state_cache(text: Fields, layer: int) -> StateCache:
    """Return the state of one layer that has one.

    Raises:
        InputError: a field that its size needs is missing.
    """
    dtype = text.get("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    kind, parts = _shape(text)
    return StateCache(layer, kind, parts, dtype if isinstance(dtype, str) else None)


def _shape(text: Fields) -> tuple[StateKind, tuple[StatePart, ...]]:
    if text.get("linear_num_value_heads"):
        return StateKind.DELTA_NET, _delta_net(text)
    if text.get("linear_attn_config"):
        return StateKind.KIMI_DELTA, _kimi_delta(text.section("linear_attn_config"))
    if text.get("conv_L_cache"):
        hidden = text.count("conv_dim", "hidden_size")
        return StateKind.SHORT_CONVOLUTION, (StatePart(hidden, text.count("conv_L_cache") - 1),)
    if _is_lightning(text):
        heads, head = text.count("num_attention_heads"), text.count("head_dim")
        return StateKind.LIGHTNING, (StatePart(heads * head * head),)
    if text.get("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "n_groups", "mamba_n_groups"):
        return StateKind.MAMBA2, _mamba2(text)
    return StateKind.MAMBA1, _mamba1(text)


def _is_lightning(text: Fields) -> bool:
    """MiniMax and Ling describe the layer's heads alone, as those of attention."""
    listed = text.get("layer_types")
    linear = isinstance(listed, list) and "linear_attention" in listed
    return bool(linear or text.get("attn_type_list", "layer_group_size")) and not text.get("mamba_d_state")


def _delta_net(text: Fields) -> tuple[StatePart, ...]:
    value_heads, value = text.count("linear_num_value_heads"), text.count("linear_value_head_dim")
    key_heads, key = text.count("linear_num_key_heads"), text.count("linear_key_head_dim")
    taps = text.count("linear_conv_kernel_dim") - 1
    return StatePart(2 * key_heads * key + value_heads * value, taps), StatePart(value_heads * value * key)


def _kimi_delta(section: Fields) -> tuple[StatePart, ...]:
    heads, head = section.count("num_heads"), section.count("head_dim")
    taps = section.count("short_conv_kernel_size") - 1
    return (*(StatePart(heads * head, taps) for _ in "qkv"), StatePart(heads * head * head))


def _mamba1(text: Fields) -> tuple[StatePart, ...]:
    inner = text.optional_count("mamba_d_ssm") or _inner(text)
    taps = text.count("mamba_d_conv", "conv_kernel") - 1
    return StatePart(inner, taps), StatePart(inner * text.count("mamba_d_state", "state_size"))


def _mamba2(text: Fields) -> tuple[StatePart, ...]:
    heads = text.count("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    head = text.get("mamba_d_head", "mamba_head_dim", "mamba_headdim", "hidden_size_per_head")
    if not isinstance(head, int):
        head = text.optional_count("head_dim") if text.get("num_heads") else None
    inner = text.optional_count("mamba_d_ssm") or (heads * head if head else _inner(text))
    state = text.count("mamba_d_state", "ssm_state_size", "state_size")
    grouped = not text.get("mamba_step")
    groups = text.count("mamba_n_groups", "mamba_ngroups", "n_groups") if grouped else 0
    taps = text.count("mamba_d_conv", "conv_kernel") - 1
    return StatePart(inner, taps, grouped=2 * state, groups=groups), StatePart(inner * state)


def _inner(text: Fields) -> int:
    if text.get("state_size") and text.optional_count("intermediate_size"):
        return text.count("intermediate_size")
    return text.count("mamba_expand", "expand") * text.count("hidden_size")
