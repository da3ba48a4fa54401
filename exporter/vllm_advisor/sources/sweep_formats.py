"""Result files of other load testers, as the rows of a sweep file.

All of them call a request's mean gap between its tokens by some name; it is that, and not a time that holds
the first token too, which is taken:

==========================  ===================================  ==================================
tool                        concurrency                          time per output token
==========================  ===================================  ==================================
``vllm bench serve``        ``max_concurrency``                  ``mean_tpot_ms``, ``p99_tpot_ms``
``vllm bench sweep`` (CSV)  the same columns                     the same columns
guidellm                    ``config.strategy.streams``          ``metrics.inter_token_latency_ms``
AIPerf                      ``concurrency`` of its input config  ``inter_token_latency``
==========================  ===================================  ==================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["rows_of_tool", "translated_row"]

_VLLM_QUANTILE = re.compile(r"p(\d+(?:\.\d+)?)_tpot_ms")
_QUANTILES = re.compile(r"p(50|90|95|99|999)")


def rows_of_tool(document: object) -> list[dict[str, Any]] | None:
    """Return a tool's document as rows with the columns of a sweep file; None where it is no tool's."""
    if isinstance(document, list):
        rows = [row for part in document for row in rows_of_tool(part) or ()]
        return rows or None
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("benchmarks"), list):
        return [_guidellm(benchmark) for benchmark in document["benchmarks"]]
    if isinstance(document.get("inter_token_latency"), dict):
        return [_aiperf(document)]
    return [translated_row(document)] if "mean_tpot_ms" in document else None


def translated_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``vllm bench`` with a sweep file's columns; another row as it is."""
    if "mean_tpot_ms" not in row:
        return dict(row)
    found = {"concurrency": row.get("max_concurrency"), "tpot_mean": _seconds(row["mean_tpot_ms"])}
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


def _guidellm(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    metrics = _part(benchmark, "metrics")
    tpot = _part(metrics, "inter_token_latency_ms", "successful")
    ttft = _part(metrics, "time_to_first_token_ms", "successful", "percentiles")
    return {
        "concurrency": _part(benchmark, "config", "strategy").get("streams"),
        "tpot_mean": _seconds(tpot.get("mean")),
        **_tpot_quantiles(_part(tpot, "percentiles")),
        "ttft_p99": _seconds(ttft.get("p99")),
        "output_tokens_per_second": _part(metrics, "output_tokens_per_second", "successful").get("mean"),
        "requests": _part(metrics, "request_totals").get("successful"),
    }


def _aiperf(document: Mapping[str, Any]) -> dict[str, Any]:
    tpot = _part(document, "inter_token_latency")
    return {
        "concurrency": _found(document.get("input_config"), "concurrency"),
        "tpot_mean": _seconds(tpot.get("avg")),
        **_tpot_quantiles(tpot),
        "ttft_p99": _seconds(_part(document, "time_to_first_token").get("p99")),
        "output_tokens_per_second": _part(document, "output_token_throughput").get("avg"),
        "requests": _part(document, "request_count").get("avg"),
    }


def _tpot_quantiles(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"tpot_{name}": _seconds(value) for name, value in values.items() if _QUANTILES.fullmatch(name)}


def _part(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        inner = document.get(key)
        document = inner if isinstance(inner, dict) else {}
    return document


def _found(document: object, key: str) -> object:
    """Return the first whole number under a key, however deep: the place moved between versions."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get(key), int):
        return document[key]
    return next((found for part in document.values() if (found := _found(part, key)) is not None), None)


def _seconds(milliseconds: object) -> object:
    try:
        return float(milliseconds) / 1000 if milliseconds not in {None, ""} else None  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return milliseconds
