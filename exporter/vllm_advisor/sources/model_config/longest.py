"""The longest sequence that a model was made for."""

from __future__ import annotations

from vllm_advisor.sources.model_config.fields import Fields

__all__ = ["longest_sequence"]

_SPELLINGS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_NOT_SCALED = {"su", "longrope", "llama3", "default"}
"""Kinds of rope scaling that the stated positions already count."""
_MOST_FACTOR = 10_000


def longest_sequence(text: Fields, model_type: str) -> int | None:
    """Return tokens, None where no field says.

    The smallest of the spellings counts; ``model_max_length`` takes their place, and rope scaling multiplies
    them (vLLM ``model_arch_config_convertor.py:derive_max_model_len_and_key``,
    ``config/model.py:_get_and_verify_max_len``).

    Raises:
        InputError: a field is no positive whole number.
    """
    stated = [text.optional_count(name) for name in _SPELLINGS]
    longest = text.optional_count("model_max_length") or min((one for one in stated if one), default=None)
    if longest is None or model_type.startswith("gemma3"):
        return longest
    scaling = _scaling(text)
    kind = scaling.get("rope_type", "type")
    factor = scaling.get("factor")
    is_scaled = isinstance(kind, str) and kind not in _NOT_SCALED
    if not is_scaled or isinstance(factor, bool) or not isinstance(factor, int | float):
        return longest
    if kind == "yarn":
        longest = scaling.optional_count("original_max_position_embeddings") or longest
    return int(longest * factor) if 1 <= factor <= _MOST_FACTOR else longest


def _scaling(text: Fields) -> Fields:
    new = text.section("rope_parameters")
    return new if new.given else text.section("rope_scaling")
