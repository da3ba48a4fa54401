"""The evidence as tables, for charts and for export; no text of any request is in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from vllm_advisor.ceilings.memory import memory_ceiling
from vllm_advisor.evidence.history import HistoryPoint
from vllm_advisor.evidence.lengths_distribution import LengthDistribution
from vllm_advisor.evidence.timeline import TimelinePoint
from vllm_advisor.web.served import ServedDeployment

__all__ = ["TABLES", "csv_text", "evidence_json", "tables"]

Table = Mapping[str, Sequence[Any]]
"""Columns of equal length, by name."""


def tables(deployment: ServedDeployment) -> dict[str, Table]:
    """Return every table of a deployment."""
    return {name: table(deployment) for name, table in TABLES.items()}


def evidence_json(deployment: ServedDeployment) -> dict[str, Any]:
    """Return every table, and where a GPU's memory goes."""
    return {
        "deployment": deployment.recommendation.deployment.name,
        "tables": tables(deployment),
        "kv_pool": _kv_pool(deployment),
    }


def csv_text(table: Table) -> str:
    """Write one table as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def _lengths(lengths: LengthDistribution) -> Table:
    seen = np.flatnonzero(lengths.counts)
    return {
        "tokens": lengths.values_tokens[seen].tolist(),
        "requests": lengths.counts[seen].tolist(),
    }


def _observed(deployment: ServedDeployment) -> Table:
    bins = deployment.recommendation.snapshot.latency.stretches
    return {
        "concurrency": bins.concurrency.tolist(),
        "tpot_mean_seconds": bins.tpot_seconds.tolist(),
        "output_tokens_per_second": bins.output_tokens_per_second.tolist(),
        "tokens": bins.tokens.tolist(),
        "stretches": bins.stretches.tolist(),
    }


def _curve(deployment: ServedDeployment) -> Table:
    curve = deployment.recommendation.latency.curve
    return {
        "concurrency": [point.concurrency for point in curve],
        "tpot_seconds": [point.tpot_seconds for point in curve],
        "error_ratio": [point.error_ratio for point in curve],
        "output_tokens_per_second": [point.output_tokens_per_second for point in curve],
        "weight": [point.weight for point in curve],
        "source": [str(point.source) for point in curve],
    }


def _occupancy(deployment: ServedDeployment) -> Table:
    return _columns(TimelinePoint, deployment.pipeline.evidence.timeline.points())


def _history(deployment: ServedDeployment) -> Table:
    return _columns(HistoryPoint, deployment.history)


def _tradeoff(deployment: ServedDeployment) -> Table:
    recommendation = deployment.recommendation
    rows = recommendation.context.tradeoff
    ceilings = (
        memory_ceiling(
            facts=recommendation.snapshot.facts,
            prediction=recommendation.prediction,
            max_model_len=row.max_model_len,
            lengths=None,
        )
        for row in rows
    )
    return {
        "quantile": [row.quantile for row in rows],
        "max_model_len": [row.max_model_len for row in rows],
        "requests_over": [row.requests_over for row in rows],
        "requests_over_per_day": [row.requests_over_per_day for row in rows],
        "memory_sequences": [ceiling.sequences for ceiling in ceilings],
    }


TABLES: Mapping[str, Callable[[ServedDeployment], Table]] = {
    "lengths": lambda one: _lengths(one.recommendation.snapshot.context.total),
    "prompt_lengths": lambda one: _lengths(one.recommendation.snapshot.context.prompt),
    "output_lengths": lambda one: _lengths(one.recommendation.snapshot.context.output),
    "tradeoff": _tradeoff,
    "observed": _observed,
    "curve": _curve,
    "occupancy": _occupancy,
    "history": _history,
}


def _columns(kind: type[Any], rows: Sequence[Any]) -> Table:
    return {name: [getattr(row, name) for row in rows] for name in kind.__dataclass_fields__}


def _kv_pool(deployment: ServedDeployment) -> dict[str, Any] | None:
    prediction = deployment.recommendation.prediction
    if prediction is None or prediction.pool is None:
        return None
    return {
        "gpu_memory_bytes": prediction.inputs.gpu_memory_bytes,
        "shares": [{"name": share.name} | asdict(share.size) for share in prediction.shares],
        "pool": asdict(prediction.pool),
    }
