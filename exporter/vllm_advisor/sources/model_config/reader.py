"""Reads a ``config.json``, or the model directory it stands in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_advisor.errors import InputError
from vllm_advisor.sources.model_config.attention import layer_caches
from vllm_advisor.sources.model_config.checkpoint import checkpoint_bytes
from vllm_advisor.sources.model_config.families import class_defaults, is_known_architecture, model_type_of
from vllm_advisor.sources.model_config.fields import Fields
from vllm_advisor.sources.model_config.model import ModelConfig, Quantization
from vllm_advisor.sources.model_config.parameters import count_weights
from vllm_advisor.sources.model_config.published import published_fields

__all__ = ["model_config_from_document", "read_model_config"]

_LIMIT_BYTES = 16_000_000
_MOST_LAYERS = 10_000
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")


def read_model_config(path: Path) -> ModelConfig:
    """Read a model's config.

    Args:
        path: a ``config.json`` or the directory that holds one.

    Raises:
        InputError: it cannot be read, or a field that the KV cache follows from is missing or unknown.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from error
    if len(raw) > _LIMIT_BYTES:
        raise InputError("is too long for a model config", path=file)
    try:
        document = json.loads(raw)
    except RecursionError as error:
        raise InputError("is nested too deeply", path=file) from error
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", path=file, line=error.lineno) from error
    except ValueError as error:
        raise InputError("is not JSON text", path=file) from error
    if not isinstance(document, Mapping):
        raise InputError("expected a JSON object, as in a model's config.json", path=file)
    model = model_config_from_document(document, file)
    return replace(model, checkpoint_bytes=checkpoint_bytes(file.parent))


def model_config_from_document(document: Mapping[str, Any], path: Path) -> ModelConfig:
    """Read a config that is already JSON values; ``path`` names it in problems.

    Raises:
        InputError: a field that the KV cache follows from is missing or unknown.
    """
    outer = Fields(document, {}, path)
    architecture = next(iter(outer.texts("architectures")), "")
    section = _text_section(outer)
    interval = section.get("full_attention_interval") is not None
    model_type = model_type_of(section.text("model_type"), architecture, interval=interval)
    notes = _check_known(outer, architecture, model_type)
    text = Fields(section.given, class_defaults(model_type), path, section.prefix)
    layers = text.count(*_LAYERS)
    if layers > _MOST_LAYERS:
        raise text.problem(_LAYERS[0], f"expected at most {_MOST_LAYERS:,} layers, not {layers:,}")
    if published := published_fields(text, model_type, layers):
        text = Fields(section.given, {**text.defaults, **published}, path, section.prefix)
        notes += (
            "The config leaves out what weights follow from; they are the published model's of its shape.",
        )
    hidden = text.optional_count("hidden_size", "n_embd", "d_model", "dim") or 0
    caches = layer_caches(text, model_type, layers)
    heads = text.optional_count("num_attention_heads", "n_head", "n_heads", "num_heads")
    width = text.optional_count("head_dim", "attention_head_dim", "kv_channels") or hidden // (heads or 1)
    return ModelConfig(
        name=_name(outer, path),
        architecture=architecture,
        model_type=model_type,
        layers=layers,
        caches=caches,
        hidden_size=hidden,
        vocab_size=text.optional_count("vocab_size", "padded_vocab_size"),
        intermediate_size=_first(text.get("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")),
        attention_width=(heads or 1) * width,
        max_len_tokens=text.optional_count(
            "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions"
        ),
        dtype=_dtype(text, outer),
        quantization=_quantization(outer, text),
        weights=count_weights(text, outer, model_type, layers),
        experts_per_token=text.optional_count("num_experts_per_tok", "experts_per_token", "moe_topk"),
        expert_width=text.optional_count("moe_intermediate_size"),
        drafter_layers=text.optional_count("num_nextn_predict_layers", "mtp_num_hidden_layers") or 0,
        multimodal=section.prefix != "",
        attention_heads=heads,
        notes=notes,
    )


def _text_section(fields: Fields) -> Fields:
    """Go down into the language model's own section, however deep it stands."""
    for name in _TEXT_SECTIONS:
        inner = fields.section(name)
        if inner.given and (any(inner.get(key) for key in _LAYERS) or inner.get(*_TEXT_SECTIONS)):
            return _text_section(inner)
    if fields.get("text_config") and not fields.get(*_LAYERS):
        return fields.section("text_config")
    return fields


def _check_known(outer: Fields, architecture: str, model_type: str) -> tuple[str, ...]:
    named = architecture or model_type
    if not named:
        return ("The config names no architecture; it was read as a decoder with ordinary attention.",)
    if not is_known_architecture(named):
        field = "architectures" if architecture else "model_type"
        raise outer.problem(field, f"{named} is not known, so what its layers keep of a token is not either")
    return ()


def _name(outer: Fields, path: Path) -> str:
    written = outer.get("_name_or_path", "_model", "name")
    return written if isinstance(written, str) and written else path.resolve().parent.name


def _first(value: object) -> int | None:
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, int) else None


def _dtype(*sections: Fields) -> str | None:
    for section in sections:
        value = section.get("dtype", "torch_dtype")
        if isinstance(value, str):
            return value.removeprefix("torch.")
    return None


def _quantization(*sections: Fields) -> Quantization | None:
    for section in sections:
        for name in ("quantization_config", "quantization_config_summary", "compression_config"):
            found = section.section(name)
            if found.given:
                return _read_quantization(found)
    return None


def _read_quantization(found: Fields) -> Quantization:
    group = next(iter(found.section("config_groups").given.values()), None)
    weights = group.get("weights") if isinstance(group, Mapping) else None
    weights = weights if isinstance(weights, Mapping) else {}
    bits = found.get("bits", "w_bit") or weights.get("num_bits")
    elements = found.get("group_size", "q_group_size") or weights.get("group_size")
    method = str(found.get("quant_method") or "")
    algorithm = str(found.get("quant_algo") or "")
    return Quantization(
        method=f"{method} {algorithm}".strip().lower(),
        bits=bits if isinstance(bits, int) and bits > 0 else None,
        group_elements=elements if isinstance(elements, int) and elements > 0 else None,
        kv_cache_dtype="fp8" if method.startswith("modelopt") and _keeps_fp8(found) else None,
    )


def _keeps_fp8(found: Fields) -> bool:
    """Whether a ModelOpt checkpoint asks for an fp8 cache (``get_kv_cache_quant_algo_string``)."""
    scheme = found.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        return scheme.get("num_bits") == 8 and scheme.get("type") == "float" and not scheme.get("dynamic")
    return str(found.get("kv_cache_quant_algo")).lower() == "fp8"
