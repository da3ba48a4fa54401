"""The table of what the simulated engine's page shows: vLLM 0.32.0's names, help texts and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vllm_advisor.demo.counters import Histogram
from vllm_advisor.demo.engine import Engine, EngineSettings
from vllm_advisor.sources import families
from vllm_advisor.sources.families import Kind

__all__ = ["SHOWN", "Shown", "cache_config_labels"]

_NAMES = {family.key: family.names[0] for family in families.FAMILIES}
_FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass(frozen=True, slots=True)
class Shown:
    """One family of the page.

    Args:
        name: as on the wire, without prefix.
        kind: how it is exposed.
        text: its help.
        read: its value; by value of ``label`` where the family has one more label.
        label: the further label.
    """

    name: str
    kind: Kind
    text: str
    read: Callable[[Engine], float | Mapping[str, float] | Histogram]
    label: str | None = None


SHOWN = (
    Shown(
        _NAMES["running"],
        Kind.GAUGE,
        "Number of requests in model execution batches.",
        lambda engine: engine.running,
    ),
    Shown(
        _NAMES["waiting"],
        Kind.GAUGE,
        "Number of requests waiting to be processed.",
        lambda engine: engine.waiting,
    ),
    Shown(
        "num_requests_waiting_by_reason",
        Kind.GAUGE,
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; "
        "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). "
        "Sum of all reasons equals vllm:num_requests_waiting.",
        lambda engine: {"capacity": engine.waiting, "deferred": 0},
        label="reason",
    ),
    Shown(
        _NAMES["sleep_state"],
        Kind.GAUGE,
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
        "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        lambda _: {"awake": 1, "weights_offloaded": 0, "discard_all": 0},
        label="sleep_state",
    ),
    Shown(
        _NAMES["kv_used_ratio"],
        Kind.GAUGE,
        "KV-cache usage. 1 means 100 percent usage.",
        lambda engine: engine.kv_used_ratio,
    ),
    Shown(
        "prefix_cache_queries_total",
        Kind.COUNTER,
        "Prefix cache queries, in terms of number of queried tokens.",
        lambda engine: engine.counters.prefix_query_tokens,
    ),
    Shown(
        "prefix_cache_hits_total",
        Kind.COUNTER,
        "Prefix cache hits, in terms of number of cached tokens.",
        lambda _: 0,
    ),
    Shown(
        _NAMES["preemptions"],
        Kind.COUNTER,
        "Cumulative number of preemption from the engine.",
        lambda _: 0,
    ),
    Shown(
        _NAMES["prompt_tokens"],
        Kind.COUNTER,
        "Number of prefill tokens processed.",
        lambda engine: engine.counters.prompt_tokens,
    ),
    Shown(
        _NAMES["generation_tokens"],
        Kind.COUNTER,
        "Number of generation tokens processed.",
        lambda engine: engine.counters.generation_tokens,
    ),
    Shown(
        _NAMES["finished"],
        Kind.COUNTER,
        "Count of successfully processed requests.",
        lambda engine: {reason: engine.counters.finished[reason] for reason in _FINISHED_REASONS},
        label="finished_reason",
    ),
    Shown(
        _NAMES["prompt_lengths"],
        Kind.HISTOGRAM,
        "Number of prefill tokens processed.",
        lambda engine: engine.counters.request_prompt_tokens,
    ),
    Shown(
        _NAMES["generation_lengths"],
        Kind.HISTOGRAM,
        "Number of generation tokens processed.",
        lambda engine: engine.counters.request_generation_tokens,
    ),
    Shown(
        _NAMES["iteration"],
        Kind.HISTOGRAM,
        "Histogram of number of tokens per engine_step.",
        lambda engine: engine.counters.step_tokens,
    ),
    Shown(
        "request_params_max_tokens",
        Kind.HISTOGRAM,
        "Histogram of the max_tokens request parameter.",
        lambda engine: engine.counters.request_max_tokens,
    ),
    Shown(
        _NAMES["ttft"],
        Kind.HISTOGRAM,
        "Histogram of time to first token in seconds.",
        lambda engine: engine.counters.first_token_seconds,
    ),
    Shown(
        _NAMES["itl"],
        Kind.HISTOGRAM,
        "Histogram of inter-token latency in seconds.",
        lambda engine: engine.counters.token_gap_seconds,
    ),
    Shown(
        "request_time_per_output_token_seconds",
        Kind.HISTOGRAM,
        "Histogram of time_per_output_token_seconds per request.",
        lambda engine: engine.counters.request_tpot_seconds,
    ),
    Shown(
        "e2e_request_latency_seconds",
        Kind.HISTOGRAM,
        "Histogram of e2e request latency in seconds.",
        lambda engine: engine.counters.request_seconds,
    ),
    Shown(
        _NAMES["queue"],
        Kind.HISTOGRAM,
        "Histogram of time spent in WAITING phase for request.",
        lambda engine: engine.counters.queue_seconds,
    ),
    Shown(
        "request_inference_time_seconds",
        Kind.HISTOGRAM,
        "Histogram of time spent in RUNNING phase for request.",
        lambda engine: engine.counters.inference_seconds,
    ),
    Shown(
        "request_prefill_time_seconds",
        Kind.HISTOGRAM,
        "Histogram of time spent in PREFILL phase for request.",
        lambda engine: engine.counters.prefill_seconds,
    ),
    Shown(
        "request_decode_time_seconds",
        Kind.HISTOGRAM,
        "Histogram of time spent in DECODE phase for request.",
        lambda engine: engine.counters.decode_seconds,
    ),
)

_CACHE_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_cache_memory_bytes": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32",
    "num_cpu_blocks": "None",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}


def cache_config_labels(settings: EngineSettings) -> dict[str, str]:
    """Return the labels of the cache configuration, the pool as `v1/core/kv_cache_utils.py` reports it."""
    blocks_per_request = -(-settings.max_model_len_tokens // settings.block_size_tokens)
    max_concurrency = settings.num_gpu_blocks / blocks_per_request
    return _CACHE_CONFIG | {
        "block_size": str(settings.block_size_tokens),
        "effective_attention_block_size": str(settings.block_size_tokens),
        "kv_cache_max_concurrency": str(max_concurrency),
        "kv_cache_size_tokens": str(int(max_concurrency * settings.max_model_len_tokens)),
        "num_gpu_blocks": str(settings.num_gpu_blocks),
    }
