"""The history of recommendations: what held from when on, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from vllm_advisor.evidence.history import HistoryPoint

__all__ = ["changes_json"]

_CAUSES = (
    ("memory_sequences", "the memory ceiling went from {} to {}"),
    ("latency_sequences", "the latency ceiling went from {} to {}"),
    ("binding", "the binding ceiling went from {} to {}"),
    ("configured_max_model_len", "the engines went from --max-model-len {} to {}"),
    ("configured_max_num_seqs", "the engines went from --max-num-seqs {} to {}"),
    ("max_model_len", "context lengths moved --max-model-len from {} to {}"),
)


def changes_json(points: Sequence[HistoryPoint]) -> list[dict[str, Any]]:
    """Return each change with what moved between it and the one before."""
    earlier: list[HistoryPoint | None] = [None, *points[:-1]]
    return [
        asdict(point) | {"why": "; ".join(_causes(before, point))}
        for before, point in zip(earlier, points, strict=False)
    ]


def _causes(before: HistoryPoint | None, after: HistoryPoint) -> Iterator[str]:
    if before is None:
        yield "first evaluation"
        return
    moved = [
        sentence.format(*(_shown(getattr(point, field)) for point in (before, after)))
        for field, sentence in _CAUSES
        if getattr(before, field) != getattr(after, field)
    ]
    yield from moved or ["what the evidence had said before held for long enough"]


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)
