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
from vllm_advisor.sources.model_config.longest import longest_sequence
from vllm_advisor.sources.model_config.model import ModelConfig
from vllm_advisor.sources.model_config.names import (
    EXPERT_WIDTH,
    EXPERTS_PER_TOKEN,
    FEED_FORWARD,
    HEAD_WIDTH,
    HEADS,
    HIDDEN,
    LAYERS,
    VOCABULARY,
)
from vllm_advisor.sources.model_config.parameters import count_weights
from vllm_advisor.sources.model_config.published import published_fields
from vllm_advisor.sources.model_config.quantization import quantization_of

__all__ = ["model_config_from_document", "read_model_config"]

_LIMIT_BYTES = 16_000_000
_MOST_LAYERS = 10_000
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder_config")
_INNER_SECTIONS = ("attn_config", "ffn_config", "moe")
"""Sections of MPT, DBRX and Mistral's own form that hold what other families have at the top."""


def read_model_config(path: Path) -> ModelConfig:
    """Read a model's config.

    Args:
        path: a ``config.json`` or the directory that holds one; Mistral's own ``params.json`` is read too.

    Raises:
        InputError: it cannot be read, or a field that the KV cache follows from is missing or unknown.
    """
    file = _config_of(path) if path.is_dir() else path
    document = _document(file)
    model = model_config_from_document({**_quantization_beside(file.parent), **document}, file)
    return replace(model, checkpoint_bytes=checkpoint_bytes(file.parent))


def _config_of(folder: Path) -> Path:
    mistral = folder / "params.json"
    return mistral if mistral.is_file() and not (folder / "config.json").exists() else folder / "config.json"


def _document(file: Path) -> Mapping[str, Any]:
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
    return document


def _quantization_beside(folder: Path) -> Mapping[str, Any]:
    """Return what older ModelOpt checkpoints keep in a file of its own, which vLLM reads into the config."""
    file = folder / "hf_quant_config.json"
    return {"quantization_config": _document(file)} if file.is_file() else {}


def model_config_from_document(document: Mapping[str, Any], path: Path) -> ModelConfig:
    """Read a config that is already JSON values; ``path`` names it in problems.

    Raises:
        InputError: a field that the KV cache follows from is missing or unknown.
    """
    outer = Fields(document, {}, path)
    architecture = next(iter(outer.texts("architectures")), "")
    section = _with_inner_sections(_text_section(outer))
    interval = section.get("full_attention_interval") is not None
    model_type = model_type_of(section.text("model_type"), architecture, interval=interval)
    notes = _check_known(outer, architecture, model_type)
    nested = section.prefix != ""
    text = Fields(section.given, class_defaults(model_type, nested=nested), path, section.prefix)
    layers = text.optional_count("decoder_layers") or text.count(*LAYERS)
    if layers > _MOST_LAYERS:
        raise text.problem(LAYERS[0], f"expected at most {_MOST_LAYERS:,} layers, not {layers:,}")
    if published := published_fields(text, model_type, layers):
        text = Fields(section.given, {**text.defaults, **published}, path, section.prefix)
        notes += (
            "The config leaves out what weights follow from; they are the published model's of its shape.",
        )
    hidden = text.optional_count(*HIDDEN) or 0
    caches = layer_caches(text, model_type, layers)
    heads = text.optional_count(*HEADS)
    width = text.optional_count(*HEAD_WIDTH) or hidden // (heads or 1)
    return ModelConfig(
        name=_name(outer, path),
        architecture=architecture,
        model_type=model_type,
        layers=layers,
        caches=caches,
        hidden_size=hidden,
        vocab_size=text.optional_count(*VOCABULARY),
        intermediate_size=text.mean_count(*FEED_FORWARD),
        attention_width=(heads or 1) * width,
        max_len_tokens=longest_sequence(text, model_type),
        dtype=_dtype(text, outer),
        quantization=quantization_of(outer, text),
        weights=count_weights(text, outer, model_type, layers),
        experts_per_token=text.mean_count(*EXPERTS_PER_TOKEN),
        expert_width=text.mean_count(*EXPERT_WIDTH),
        drafter_layers=text.optional_count("num_nextn_predict_layers", "mtp_num_hidden_layers") or 0,
        multimodal=nested,
        attention_heads=heads,
        notes=notes,
    )


def _text_section(fields: Fields) -> Fields:
    """Go down into the language model's own section, however deep it stands."""
    for name in _TEXT_SECTIONS:
        inner = fields.section(name)
        if inner.given and (any(inner.get(key) for key in LAYERS) or inner.get(*_TEXT_SECTIONS)):
            return _text_section(inner)
    if fields.get("text_config") and not fields.get(*LAYERS):
        return fields.section("text_config")
    return fields


def _with_inner_sections(fields: Fields) -> Fields:
    inner = {key: value for name in _INNER_SECTIONS for key, value in fields.section(name).given.items()}
    return Fields({**inner, **fields.given}, fields.defaults, fields.path, fields.prefix)


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


def _dtype(*sections: Fields) -> str | None:
    for section in sections:
        value = section.get("dtype", "torch_dtype")
        if isinstance(value, str):
            return value.removeprefix("torch.")
    return None
