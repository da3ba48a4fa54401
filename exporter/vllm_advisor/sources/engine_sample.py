"""One engine as its metrics page shows it at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["EngineSample", "Histogram"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram as exposed.

    Args:
        bounds: upper bounds as on the page, ascending; the last is infinity on a whole page.
        counts: observations at or below each bound.
        total: sum of what was observed, in the family's unit.
        count: number of observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float
    count: float


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What is read of one engine (one data-parallel rank) on one page; None where the page lacks it.

    Counters are since ``created_seconds``, the Unix time of the engine's start. ``*_sum`` are seconds, or
    tokens for ``iteration_sum``.
    Field meanings and versions: `sources.families`.
    """

    engine: str
    model_name: str
    running: float | None = None
    waiting: float | None = None
    kv_used_ratio: float | None = None
    awake: bool = True
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    finished: float | None = None
    created_seconds: float | None = None
    itl_sum: float | None = None
    itl_count: float | None = None
    queue_sum: float | None = None
    queue_count: float | None = None
    iteration_sum: float | None = None
    iteration_count: float | None = None
    ttft: Histogram | None = None
    prompt_lengths: Histogram | None = None
    generation_lengths: Histogram | None = None
    cache_config: Mapping[str, str] = field(default_factory=dict)
