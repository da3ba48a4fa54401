"""The numbers at which advice begins, in one place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Thresholds"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When each advice is given.

    Args:
        steps_at_cap_ratio: the cap binds from this share of engine steps on.
        pool_idle_ratio: the KV pool is idle below this use, at the 0.99 quantile of time.
        memory_waiting_ratio: memory binds from this share of busy time with requests waiting on a full pool.
        oversized_factor: max-model-len is oversized from this multiple of the recommended one on.
        stale_seconds: evidence is stale after this long without a page or a log line.
        ceilings_apart_factor: ceilings are far apart from this ratio on.
        prediction_error_ratio: arithmetic and engine disagree beyond this.
    """

    steps_at_cap_ratio: float = 0.1
    pool_idle_ratio: float = 0.7
    memory_waiting_ratio: float = 0.05
    oversized_factor: float = 2.0
    stale_seconds: float = 300.0
    ceilings_apart_factor: float = 2.0
    prediction_error_ratio: float = 0.05
