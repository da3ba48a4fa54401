"""What an engine says of its own configuration: page labels, JSON doors, the configuration file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # reading configurations takes half of plan's start, which does without
    from vllm_advisor.config import EngineConfig

__all__ = [
    "CapSource",
    "EngineFacts",
    "admission_cap",
    "facts_from_config",
    "facts_from_doors",
    "facts_from_page",
    "facts_from_server_info",
    "merge_facts",
]


_FLAGS = {"True": True, "False": False}


class CapSource(StrEnum):
    """Where a configured max-num-seqs was learnt."""

    CONFIG = "config"
    STARTUP_LOG = "startup_log"
    POD_ARGUMENTS = "pod_arguments"
    SERVER_INFO = "server_info"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """One engine's configuration as far as it is known; None where it is not.

    Args:
        max_model_len: tokens, from ``/v1/models`` or from the page's labels.
        max_num_seqs: how many sequences are admitted, with where it was learnt in ``max_num_seqs_source``.
        kv_pool_tokens: what this one engine reports as its KV cache size.
        kv_max_concurrency: what it reports as maximum concurrency at its max_model_len.
        num_gpu_blocks: of this one engine (the page's sum over data-parallel engines divided).
        block_size_tokens: the scheduler's block.
        kv_cache_memory_bytes: the flag, which takes the place of gpu_memory_utilization where it is set.
        model: as its command line names it.
        speculative_tokens: of ``--speculative-config``, with its ``speculative_method``.
    """

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_seqs_source: CapSource | None = None
    kv_pool_tokens: int | None = None
    kv_max_concurrency: float | None = None
    num_gpu_blocks: int | None = None
    block_size_tokens: int | None = None
    cache_dtype: str | None = None
    gpu_memory_utilization_ratio: float | None = None
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    prefix_caching: bool | None = None
    vllm_version: str | None = None
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    model: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    data_parallel_size: int | None = None
    decode_context_parallel_size: int | None = None
    max_num_batched_tokens: int | None = None
    async_scheduling: bool | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    enforce_eager: bool | None = None
    mamba_ssm_cache_dtype: str | None = None
    speculative_tokens: int | None = None
    speculative_method: str | None = None


def merge_facts(*sources: EngineFacts) -> EngineFacts:
    """Return what some sources say together; where two speak, the earlier one wins."""
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        said = {field.name: getattr(source, field.name) for field in fields(source)}
        merged |= {name: value for name, value in said.items() if value is not None}
        if source.max_num_seqs is not None:
            merged["max_num_seqs_source"] = source.max_num_seqs_source
    return EngineFacts(**merged)


def facts_from_page(cache_config: Mapping[str, str], *, engines_on_page: int = 1) -> EngineFacts:
    """Read the labels of one engine's ``cache_config_info``.

    Args:
        cache_config: the labels; a value of ``None`` is an absent one.
        engines_on_page: ``num_gpu_blocks`` is the sum over them, on every one's series (vLLM
            ``v1/engine/core_client.py``); the token count and the concurrency are the engine's own.
    """
    blocks = _count(cache_config.get("num_gpu_blocks"))
    tokens = _count(cache_config.get("kv_cache_size_tokens"))
    concurrency = _number(cache_config.get("kv_cache_max_concurrency"))
    return EngineFacts(
        max_model_len=_reported_max_model_len(tokens, concurrency),
        kv_pool_tokens=tokens,
        kv_max_concurrency=concurrency,
        num_gpu_blocks=blocks // max(1, engines_on_page) if blocks else None,
        block_size_tokens=_count(cache_config.get("block_size")),
        cache_dtype=_text(cache_config.get("cache_dtype")),
        gpu_memory_utilization_ratio=_number(cache_config.get("gpu_memory_utilization")),
        kv_cache_memory_bytes=_count(cache_config.get("kv_cache_memory_bytes")),
        num_gpu_blocks_override=_count(cache_config.get("num_gpu_blocks_override")),
        prefix_caching=_FLAGS.get(cache_config.get("enable_prefix_caching", "")),
    )


def facts_from_doors(
    *, models: Mapping[str, Any] | None = None, version: Mapping[str, Any] | None = None
) -> EngineFacts:
    """Read the answers of ``/v1/models`` and ``/version``."""
    served = (models or {}).get("data")
    cards = [card for card in served if isinstance(card, Mapping)] if isinstance(served, list) else []
    lengths = [_count(card.get("max_model_len")) for card in cards]
    return EngineFacts(
        max_model_len=next((length for length in lengths if length), None),
        vllm_version=_text((version or {}).get("version")),
    )


def facts_from_server_info(answer: Mapping[str, Any]) -> EngineFacts:
    """Read ``/server_info?config_format=json``, which only a server in development mode gives."""
    whole = _section(answer, "vllm_config")
    cache = _section(whole, "cache_config")
    cap = admission_cap(_section(whole, "scheduler_config"))
    said = facts_from_page({key: str(value) for key, value in cache.items()})
    engine = EngineFacts(
        max_model_len=_count(_section(whole, "model_config").get("max_model_len")),
        max_num_seqs=cap,
        max_num_seqs_source=CapSource.SERVER_INFO if cap else None,
    )
    return merge_facts(engine, said)


def facts_from_config(engine: EngineConfig) -> EngineFacts:
    """Return what the configuration file says of an engine."""
    return EngineFacts(
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_num_seqs_source=CapSource.CONFIG if engine.max_num_seqs else None,
        block_size_tokens=engine.block_size_tokens,
        cache_dtype=engine.kv_cache_dtype,
        gpu_memory_utilization_ratio=engine.gpu_memory_utilization_ratio,
        kv_cache_memory_bytes=engine.kv_cache_memory_bytes,
        num_gpu_blocks_override=engine.num_gpu_blocks_override,
        prefix_caching=engine.enable_prefix_caching,
        vllm_version=engine.vllm_version,
    )


def admission_cap(arguments: Mapping[str, object]) -> int | None:
    """Return how many sequences an engine admits; from 0.32 on ``max_num_active_seqs`` may be lower."""
    caps = (_count(arguments.get(name)) for name in ("max_num_seqs", "max_num_active_seqs"))
    return min((cap for cap in caps if cap is not None), default=None)


def _reported_max_model_len(tokens: int | None, concurrency: float | None) -> int | None:
    """Invert ``tokens = int(concurrency x max_model_len)``: one whole number lies in the interval."""
    if not tokens or not concurrency:
        return None
    return math.ceil(tokens / concurrency - 1e-6)


def _section(document: object, key: str) -> Mapping[str, Any]:
    section = document.get(key) if isinstance(document, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in {"", "None"} else None


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None
