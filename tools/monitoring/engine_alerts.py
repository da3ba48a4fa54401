"""Alerts that need nothing but vLLM's own metrics: they work without the advisor, and know no flag."""

from __future__ import annotations

from monitoring.rule import Alert
from monitoring.thresholds import ADVICE, FULL_POOL_RATIO, PLATEAU_RATIO, PREEMPTED_REQUESTS_RATIO
from vllm_advisor.ceilings.advice import Severity

__all__ = ["ENGINE_ALERTS"]

_ENGINE = (
    "Engine {{ with $labels.engine }}{{ . }} of {{ end }}{{ $labels.instance }} ({{ $labels.model_name }})"
)

# Requests also wait for prefill budget or transfers; only a cap holds the running ones at their own highest.
_CAP_BINDS = f"""\
avg_over_time(engine:vllm_num_requests_running:max[5m])
>= {PLATEAU_RATIO:g} * max_over_time(engine:vllm_num_requests_running:max[1h])
and min_over_time(engine:vllm_num_requests_waiting:max[5m]) > 0
and max_over_time(engine:vllm_kv_cache_usage_ratio:max[5m]) < {ADVICE.pool_idle_ratio:g}"""

_MEMORY_BINDS = f"""\
avg_over_time(engine:vllm_kv_cache_usage_ratio:max[5m]) >= {FULL_POOL_RATIO:g}
and min_over_time(engine:vllm_num_requests_waiting:max[5m]) > 0"""

_PREEMPTING = f"""\
engine:vllm_num_preemptions:rate5m / (engine:vllm_request_success:rate5m > 0)
> {PREEMPTED_REQUESTS_RATIO:g}"""

ENGINE_ALERTS = (
    Alert(
        "VllmOnlyCapBindsPoolIdle",
        _CAP_BINDS,
        "15m",
        Severity.WARNING,
        "Requests wait at a steady number of running ones while the KV pool is idle.",
        f"{_ENGINE} holds at {{{{ $value | printf `%.0f` }}}} running sequences with others waiting, and "
        f"less than "
        f"{ADVICE.pool_idle_ratio:.0%} of the KV pool is in use: --max-num-seqs binds.",
    ),
    Alert(
        "VllmOnlyMemoryBinds",
        _MEMORY_BINDS,
        "15m",
        Severity.WARNING,
        "Requests wait while the KV pool is full.",
        f"{_ENGINE} has {{{{ $value | humanizePercentage }}}} of its KV pool in use and requests waiting.",
    ),
    Alert(
        "VllmOnlyPreempting",
        _PREEMPTING,
        "15m",
        Severity.WARNING,
        "Running requests are preempted for want of KV blocks.",
        f"{_ENGINE} preempts {{{{ $value | humanizePercentage }}}} as many requests as it finishes.",
    ),
)
