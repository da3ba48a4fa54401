"""The one table of vLLM's metric names, by version; nothing else in the package spells one.

Names are those on the wire without prefix (``vllm:``, or ``vllm_`` and ``ray_vllm_`` where a proxy renamed
them), newest first: the first that a page has is read, the others are never added to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["FAMILIES", "PREFIXES", "Family", "Kind"]

PREFIXES = ("vllm:", "vllm_", "ray_vllm_")


class Kind(StrEnum):
    """How a family is exposed, and so which series it has."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    TOTALS = "totals"
    """A histogram of which only ``_sum`` and ``_count`` are read."""
    INFO = "info"
    """A gauge fixed at 1 whose labels are the content."""


@dataclass(frozen=True, slots=True)
class Family:
    """One thing the advisor reads off an engine's page.

    Args:
        key: what it fills in `sources.engine_sample.EngineSample`: the field itself, or its ``_sum`` and
            ``_count`` for totals.
        kind: which series are read.
        names: names on the wire without prefix, newest first, versions in the comment beside each.
    """

    key: str
    kind: Kind
    names: tuple[str, ...]


FAMILIES = (
    Family("running", Kind.GAUGE, ("num_requests_running",)),
    Family("waiting", Kind.GAUGE, ("num_requests_waiting",)),
    Family(
        "kv_used_ratio",
        Kind.GAUGE,
        (
            "kv_cache_usage_perc",  # 0.9.2 on; 0..1 despite its name
            "gpu_cache_usage_perc",  # to 0.11
        ),
    ),
    Family("sleep_state", Kind.GAUGE, ("engine_sleep_state",)),  # 0.11.1 on; label sleep_state
    Family("prompt_tokens", Kind.COUNTER, ("prompt_tokens_total",)),
    Family("generation_tokens", Kind.COUNTER, ("generation_tokens_total",)),
    Family("preemptions", Kind.COUNTER, ("num_preemptions_total",)),
    Family("finished", Kind.COUNTER, ("request_success_total",)),  # label finished_reason
    Family("created_seconds", Kind.GAUGE, ("generation_tokens_created",)),  # where one process has the page
    Family(
        "itl",
        Kind.TOTALS,
        (
            "inter_token_latency_seconds",  # 0.10.2 on
            "time_per_output_token_seconds",  # to 0.11; the gap between outputs, despite its name
        ),
    ),
    Family("ttft", Kind.HISTOGRAM, ("time_to_first_token_seconds",)),
    Family("queue", Kind.TOTALS, ("request_queue_time_seconds",)),  # 0.6.4 on
    Family("iteration", Kind.TOTALS, ("iteration_tokens_total",)),  # 0.6.4 on; a histogram despite its name
    Family("prompt_lengths", Kind.HISTOGRAM, ("request_prompt_tokens",)),
    Family("generation_lengths", Kind.HISTOGRAM, ("request_generation_tokens",)),
    Family("cache_config", Kind.INFO, ("cache_config_info",)),
)
