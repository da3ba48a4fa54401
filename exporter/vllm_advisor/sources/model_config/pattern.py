"""Which kind of layer stands where: read off the lists and periods that configs describe it with."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from vllm_advisor.sources.model_config.fields import Fields

__all__ = ["LayerKind", "layer_kinds"]


class LayerKind(StrEnum):
    """What a layer's token mixer is."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    STATE = "state"
    STATE_AND_FULL = "state and full"
    """A state and attention side by side in one layer."""
    NONE = "none"
    """Neither: an MLP or a mixture of experts alone."""


_WORDS = {
    "full_attention": LayerKind.FULL,
    "attention": LayerKind.FULL,
    "global_attention": LayerKind.FULL,
    "global": LayerKind.FULL,
    "full": LayerKind.FULL,
    "deepseek_sparse_attention": LayerKind.FULL,
    "sliding_attention": LayerKind.SLIDING,
    "sliding": LayerKind.SLIDING,
    "local_attention": LayerKind.SLIDING,
    "local": LayerKind.SLIDING,
    "chunked_attention": LayerKind.CHUNKED,
    "linear_attention": LayerKind.STATE,
    "mamba": LayerKind.STATE,
    "mamba2": LayerKind.STATE,
    "conv": LayerKind.STATE,
    "hybrid": LayerKind.STATE_AND_FULL,
    "moe": LayerKind.NONE,
    "mlp": LayerKind.NONE,
}
_NEMOTRON = {"M": LayerKind.STATE, "*": LayerKind.FULL, "-": LayerKind.NONE, "E": LayerKind.NONE}
_FLAGGED = (
    ("attn_type_list", LayerKind.FULL, LayerKind.STATE),
    ("hybrid_layer_pattern", LayerKind.SLIDING, LayerKind.FULL),
)
_STATE_ONLY = {"mamba", "mamba2", "falcon_mamba"}
_STATE_FIELDS = ("mamba_d_state", "ssm_state_size", "linear_num_value_heads", "conv_L_cache")
"""Fields that only models with state layers have."""
_INDICES = ("attn_layer_indices", "full_attn_idxs")
_INTERVALS = ("full_attention_interval", "layer_group_size")


def layer_kinds(text: Fields, model_type: str, layers: int) -> tuple[LayerKind, ...]:
    """Return the kind of every layer.

    Raises:
        InputError: a list has the wrong length or an unknown word, or states are sized and nowhere placed.
    """
    if model_type in _STATE_ONLY:
        return (LayerKind.STATE,) * layers
    if model_type == "falcon_h1":
        return (LayerKind.STATE_AND_FULL,) * layers
    kinds = _listed(text, layers) or _hybrid(text, layers)
    if not kinds:
        _refuse_unplaced_states(text)
        kinds = _windowed(text, model_type, layers)
    if _has_no_window(text):
        return tuple(LayerKind.FULL if kind is LayerKind.SLIDING else kind for kind in kinds)
    return kinds


def _refuse_unplaced_states(text: Fields) -> None:
    if sized := next((name for name in _STATE_FIELDS if text.get(name)), None):
        raise text.problem(sized, "sizes a state, and nothing that is known says which layers keep one")


def _listed(text: Fields, layers: int) -> tuple[LayerKind, ...]:
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return _of_length(text, "hybrid_override_pattern", [_NEMOTRON.get(sign) for sign in pattern], layers)
    for name in ("layer_types", "layers_block_type"):
        if words := text.texts(name):
            return _of_length(text, name, [_WORDS.get(word) for word in words], layers)
    for name, if_set, if_not in _FLAGGED:
        if flags := text.counts(name):
            return _of_length(text, name, [if_set if flag else if_not for flag in flags], layers)
    return _counted(text, layers)


def _counted(text: Fields, layers: int) -> tuple[LayerKind, ...]:
    """Read a summary that says how many layers of each kind there are, and not where."""
    counts = text.section("layer_types_count")
    kinds = [_WORDS.get(word) for word in counts.given for _ in range(min(counts.count(word), layers))]
    return _of_length(text, "layer_types_count", kinds, layers) if kinds else ()


def _hybrid(text: Fields, layers: int) -> tuple[LayerKind, ...]:
    if text.get("linear_attn_config"):
        full = set(text.section("linear_attn_config").counts("full_attn_layers"))
        return _full_where([index + 1 in full for index in range(layers)])
    if text.get(*_INDICES):
        indices = set(text.counts(*_INDICES))
        return _full_where([index in indices for index in range(layers)])
    if text.get("hybrid_layer_ids"):
        both = set(text.counts("hybrid_layer_ids"))
        return tuple(
            LayerKind.STATE_AND_FULL if index in both else LayerKind.STATE for index in range(layers)
        )
    if period := text.optional_count("attn_layer_period"):
        offset = text.optional_count("attn_layer_offset") or 0
        return _full_where([index % period == offset for index in range(layers)])
    if interval := text.optional_count(*_INTERVALS):
        return _full_where([(index + 1) % interval == 0 for index in range(layers)])
    if step := text.optional_count("mamba_step"):
        return _full_where([index % step == step // 2 for index in range(layers)])
    return ()


def _windowed(text: Fields, model_type: str, layers: int) -> tuple[LayerKind, ...]:
    if text.get("attention_chunk_size"):
        rotary = text.counts("no_rope_layers")
        interval = text.count("no_rope_layer_interval")
        chunked = rotary or tuple((index + 1) % interval != 0 for index in range(layers))
        kinds = [LayerKind.CHUNKED if flag else LayerKind.FULL for flag in chunked]
        return _of_length(text, "no_rope_layers", kinds, layers)
    if not text.get("sliding_window"):
        return (LayerKind.FULL,) * layers
    if model_type == "gemma2":
        return tuple(LayerKind.FULL if index % 2 else LayerKind.SLIDING for index in range(layers))
    pattern = text.get("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(pattern, str):
        return tuple(
            LayerKind.SLIDING if pattern[index % len(pattern)] == "L" else LayerKind.FULL
            for index in range(layers)
        )
    if isinstance(pattern, int) and pattern > 1:
        return tuple(LayerKind.FULL if (i + 1) % pattern == 0 else LayerKind.SLIDING for i in range(layers))
    full_below = (text.optional_count("max_window_layers") or 0) if text.get("use_sliding_window") else 0
    return tuple(LayerKind.FULL if index < full_below else LayerKind.SLIDING for index in range(layers))


def _has_no_window(text: Fields) -> bool:
    return not text.get("sliding_window", "sliding_window_size") or text.get("use_sliding_window") is False


def _full_where(full: Sequence[bool]) -> tuple[LayerKind, ...]:
    return tuple(LayerKind.FULL if here else LayerKind.STATE for here in full)


def _of_length(
    text: Fields, name: str, kinds: Sequence[LayerKind | None], layers: int
) -> tuple[LayerKind, ...]:
    known = [kind for kind in kinds if kind is not None]
    if len(known) != len(kinds):
        raise text.problem(name, "names a kind of layer that is not known")
    if len(known) < layers:
        raise text.problem(name, f"describes {len(known)} layers of {layers}")
    return tuple(known[:layers])
