"""One engine on successive pages, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.engine_sample import EngineSample, Histogram

__all__ = ["COUNTERS", "HISTOGRAMS", "NUMBERS", "Bounds", "EngineSeries", "Floats", "columns_of", "series_of"]

Floats = NDArray[np.float64]
Bounds = tuple[tuple[float, ...], ...]
"""Upper bounds of each of `HISTOGRAMS`; none where the pages lack it."""

COUNTERS = (
    "prompt_tokens",
    "generation_tokens",
    "preemptions",
    "finished",
    "itl_sum",
    "itl_count",
    "queue_sum",
    "queue_count",
    "iteration_sum",
    "iteration_count",
)
NUMBERS = (*COUNTERS, "running", "waiting", "kv_used_ratio", "awake", "created_seconds")
"""The first columns: fields of `EngineSample` that are one number."""
HISTOGRAMS = ("ttft", "prompt_lengths", "generation_lengths")
"""The columns after them: of each its total, its count, and a cumulative count for each bound."""

_numbers = attrgetter(*NUMBERS)
_histograms = attrgetter(*HISTOGRAMS)


@dataclass(frozen=True, slots=True, eq=False)
class EngineSeries:
    """What is read of one engine on successive pages that differ in nothing but numbers.

    Args:
        time_seconds: Unix time of each page, ascending.
        numbers: a row for each page, its columns as `NUMBERS` and `HISTOGRAMS` say; NaN what a page lacks,
            and a whole histogram that is not finite throughout.
        engines_on_page: how many engines the pages have.
    """

    engine: str
    model_name: str
    cache_config: Mapping[str, str]
    bounds: Bounds
    time_seconds: Floats
    numbers: Floats
    engines_on_page: int = 1

    def outside(self, first_seconds: float, last_seconds: float) -> EngineSeries:
        """Return the pages before a time and after another."""
        kept = (self.time_seconds < first_seconds) | (self.time_seconds > last_seconds)
        return replace(self, time_seconds=self.time_seconds[kept], numbers=self.numbers[kept])

    def last_page(self) -> EngineSeries:
        """Return the last page alone."""
        if len(self.time_seconds) == 1:
            return self
        return replace(self, time_seconds=self.time_seconds[-1:].copy(), numbers=self.numbers[-1:].copy())

    def level(self, name: str) -> float | None:
        """Return one of `NUMBERS` on the last page, None where it lacks it."""
        number = float(self.numbers[-1, NUMBERS.index(name)])
        return None if np.isnan(number) else number


@lru_cache(maxsize=4096)
def columns_of(bounds: Bounds) -> tuple[slice, ...]:
    """Return the columns of each histogram: empty ones where the pages lack it."""
    columns, start = [], len(NUMBERS)
    for uppers in bounds:
        end = start + len(uppers) + 2 if uppers else start
        columns.append(slice(start, end))
        start = end
    return tuple(columns)


def series_of(sample: EngineSample, time_seconds: float, engines_on_page: int) -> EngineSeries:
    """Return the series of a single page."""
    histograms: list[Histogram | None] = list(_histograms(sample))
    row = [*_numbers(sample)]
    for one in histograms:
        if one is not None:
            row += (one.total, one.count, *one.counts)
    return EngineSeries(
        engine=sample.engine,
        model_name=sample.model_name,
        cache_config=sample.cache_config,
        bounds=tuple(one.bounds if one is not None else () for one in histograms),
        time_seconds=np.array([time_seconds]),
        numbers=np.array([row], np.float64),
        engines_on_page=engines_on_page,
    )
