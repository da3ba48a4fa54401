"""Intervals for tests: written out one by one, or between pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from vllm_advisor.evidence.intervals import Intervals, LengthCounts, Pages, intervals_of
from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.engine_series import series_of

__all__ = ["Interval", "between", "lengths_seen", "together"]


@dataclass(frozen=True)
class Interval:
    """One row of `Intervals`; None where a level or a histogram is unknown."""

    start_seconds: float = 0.0
    end_seconds: float = 0.0
    running: float | None = 0.0
    running_before: float | None = 0.0
    waiting: float | None = 0.0
    kv_used_ratio: float | None = 0.0
    awake: bool = True
    decode_seconds: float = 0.0
    decode_tokens: float = 0.0
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    first_tokens: float = 0.0
    ttft_seconds: float = 0.0
    queue_seconds: float = 0.0
    queued: float = 0.0
    steps: float = 0.0
    preemptions: float = 0.0
    finished: float = 0.0
    ttft: LengthCounts | None = None
    prompt_lengths: LengthCounts | None = None
    generation_lengths: LengthCounts | None = None

    @property
    def seconds(self) -> float:
        """Length of the interval."""
        return self.end_seconds - self.start_seconds


def lengths_seen(bounds: Sequence[float], counts: Sequence[float]) -> LengthCounts:
    """Return what a histogram gained in one interval."""
    return LengthCounts(tuple(bounds), np.array([counts], np.float64))


def together(*rows: Interval, engine_id: str = "a") -> Intervals:
    """Return intervals of one engine as the evidence takes them."""
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(Interval)}
    histograms = {
        name: _joined(columns.pop(name)) for name in ("ttft", "prompt_lengths", "generation_lengths")
    }
    arrays = {
        name: np.array(column, np.bool_ if name == "awake" else np.float64)
        for name, column in columns.items()
    }
    return Intervals((engine_id,), np.zeros(len(rows), np.intp), **arrays, **histograms)


def between(pages: Iterable[tuple[float, EngineSample]], engine_id: str = "a") -> Intervals:
    """Return what happened between one engine's pages of one make, each with its time."""
    pieces = tuple(series_of(sample, time_seconds, 1) for time_seconds, sample in pages)
    (intervals,) = intervals_of([Pages(engine_id, pieces, counts=True)], math.inf)
    return intervals


def _joined(counts: list[LengthCounts | None]) -> LengthCounts | None:
    known = next((one for one in counts if one is not None), None)
    if known is None:
        return None
    unknown = np.full_like(known.counts, np.nan)
    return LengthCounts(known.bounds, np.vstack([unknown if one is None else one.counts for one in counts]))
