"""Result files of other load testers, as the rows of a sweep file.

All of them call a request's mean gap between its tokens by some name; it is that, and not a time that holds
the first token too, which is taken:

==========================  ===================================  ==================================
tool                        concurrency                          time per output token
==========================  ===================================  ==================================
``vllm bench serve``        ``max_concurrency``                  ``mean_tpot_ms``, ``p99_tpot_ms``
``vllm bench sweep``        the same, in JSON and CSV            the same
guidellm                    ``config.strategy.streams``          ``metrics.inter_token_latency_ms``
AIPerf, one run             ``concurrency`` of its input config  ``inter_token_latency``
AIPerf, its aggregates      ``concurrency`` of the combination   the same, or ``…_avg``, ``…_p99``
==========================  ===================================  ==================================

A run at a request rate holds no concurrency, whatever it was capped at. It is left out where others are left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["rows_of_tool", "translated_row"]

_VLLM_QUANTILE = re.compile(r"p(\d+(?:\.\d+)?)_tpot_ms")
_NO_RATE = {"inf", "Infinity", ""}
_QUANTILES = re.compile(r"p(50|90|95|99|999)")


def rows_of_tool(document: object) -> list[dict[str, Any]] | None:
    """Return a tool's document as rows with the columns of a sweep file; None where it is no tool's."""
    rows = _rows(document)
    return [row for row in rows if row["concurrency"] is not None] or rows or None


def translated_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``vllm bench`` with a sweep file's columns; another row as it is."""
    if "mean_tpot_ms" not in row:
        return dict(row)
    is_closed_loop = str(row.get("request_rate", "inf")) in _NO_RATE
    found = {
        "concurrency": row.get("max_concurrency") if is_closed_loop else None,
        "tpot_mean": _seconds(row["mean_tpot_ms"]),
    }
    found |= {
        f"tpot_p{match[1]}": _seconds(value)
        for column, value in row.items()
        if column and (match := _VLLM_QUANTILE.fullmatch(column))
    }
    if "median_tpot_ms" in row:
        found["tpot_p50"] = _seconds(row["median_tpot_ms"])
    rest = {
        "ttft_p99": _seconds(row.get("p99_ttft_ms")),
        "output_tokens_per_second": row.get("output_throughput"),
        "requests": row.get("completed"),
    }
    return found | rest


def _rows(document: object) -> list[dict[str, Any]]:
    if isinstance(document, list):
        return [row for part in document for row in _rows(part)]
    if not isinstance(document, dict):
        return []
    if isinstance(document.get("benchmarks"), list):
        return [_guidellm(one) for one in document["benchmarks"] if isinstance(one, dict)]
    if isinstance(document.get("per_combination_metrics"), list):
        return [_aiperf_combination(combination) for combination in document["per_combination_metrics"]]
    if "inter_token_latency_avg" in _part(document, "metrics"):
        return [_aiperf_repeats(document)]
    if isinstance(document.get("inter_token_latency"), dict):
        return [_aiperf(document, _aiperf_concurrency(document))]
    return [translated_row(document)] if "mean_tpot_ms" in document else []


def _guidellm(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    metrics = _part(benchmark, "metrics")
    tpot = _part(metrics, "inter_token_latency_ms", "successful")
    ttft = _part(metrics, "time_to_first_token_ms", "successful", "percentiles")
    strategy = _part(benchmark, "config", "strategy")
    return {
        "concurrency": 1 if strategy.get("type_") == "synchronous" else strategy.get("streams"),
        "tpot_mean": _seconds(tpot.get("mean")),
        **_tpot_quantiles(_part(tpot, "percentiles")),
        "ttft_p99": _seconds(ttft.get("p99")),
        "output_tokens_per_second": _part(metrics, "output_tokens_per_second", "successful").get("mean"),
        "requests": _part(metrics, "request_totals").get("successful"),
    }


def _aiperf(metrics: Mapping[str, Any], concurrency: object) -> dict[str, Any]:
    tpot = _part(metrics, "inter_token_latency")
    return {
        "concurrency": concurrency,
        "tpot_mean": _seconds(tpot.get("avg")),
        **_tpot_quantiles(tpot),
        "ttft_p99": _seconds(_part(metrics, "time_to_first_token").get("p99")),
        "output_tokens_per_second": _part(metrics, "output_token_throughput").get("avg"),
        "requests": _part(metrics, "request_count").get("avg"),
    }


def _aiperf_concurrency(document: Mapping[str, Any]) -> object:
    """Return the concurrency of a run, wherever its version puts it; None for a run at a request rate."""
    config = _part(document, "input_config")
    phases = config.get("phases")
    if not isinstance(phases, list):
        loads = [_part(config, "loadgen")]
    else:
        loads = [
            phase for phase in phases if isinstance(phase, dict) and not phase.get("exclude_from_results")
        ]
    closed = [
        load for load in loads if not load.get("request_rate") and load.get("type") in (None, "concurrency")
    ]
    return closed[-1].get("concurrency") if closed else None


def _aiperf_combination(combination: object) -> dict[str, Any]:
    """Return one combination of a sweep over parameters, whose repeats are averaged."""
    whole = combination if isinstance(combination, dict) else {}
    return _aiperf(_part(whole, "metrics"), _aiperf_parameter(_part(whole, "parameters")))


def _aiperf_repeats(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the repeats of one run, where each statistic is a metric with a mean of its own."""
    metrics: dict[str, dict[str, Any]] = {}
    for name, value in _part(document, "metrics").items():
        metric, _, statistic = name.rpartition("_")
        metrics.setdefault(metric, {})[statistic] = value.get("mean") if isinstance(value, dict) else None
    return _aiperf(metrics, _aiperf_parameter(_part(document, "metadata", "variation_values")))


def _aiperf_parameter(parameters: Mapping[str, Any]) -> object:
    """Return the concurrency among parameters that are named with or without what they belong to."""
    return next((value for name, value in parameters.items() if name.split(".")[-1] == "concurrency"), None)


def _tpot_quantiles(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"tpot_{name}": _seconds(value) for name, value in values.items() if _QUANTILES.fullmatch(name)}


def _part(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        inner = document.get(key)
        document = inner if isinstance(inner, dict) else {}
    return document


def _seconds(milliseconds: object) -> object:
    try:
        return float(milliseconds) / 1000 if milliseconds not in {None, ""} else None  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return milliseconds
