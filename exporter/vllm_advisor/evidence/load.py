"""What one engine was short of over an interval, as far as its page tells without knowing cap or target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from vllm_advisor.evidence.interval import Interval

__all__ = ["Load", "LoadKey", "Short", "load_key", "loads"]

_TPOT_STEP = math.log(1.05)
_CROWDED_RATIO = 0.95


class Short(StrEnum):
    """What kept a request from running."""

    NOTHING = "nothing"
    """None waited."""
    SLOTS = "slots"
    """Some waited although the pool had room: for the cap, or for the token budget of a step."""
    MEMORY = "memory"
    """Some waited for room in the pool, or were preempted for want of it."""


LoadKey = tuple[Short, int, int | None]
"""What was short, sequences running where it was `Short.SLOTS` (else 0), and the step of TPOT."""


@dataclass(frozen=True, slots=True)
class Load:
    """Busy time under one kind of load.

    Args:
        short: what was short.
        running: sequences running, 0 unless they waited for slots.
        tpot_seconds: time per output token, within 2.5%; None where nothing was decoded.
        seconds: engine-seconds.
    """

    short: Short
    running: int
    tpot_seconds: float | None
    seconds: float


def load_key(interval: Interval) -> LoadKey:
    """Return under what kind of load an interval falls."""
    short = _short(interval)
    tpot_seconds = interval.tpot_seconds
    step = round(math.log(tpot_seconds) / _TPOT_STEP) if tpot_seconds else None
    return short, int(interval.running or 0) if short is Short.SLOTS else 0, step


def loads(seconds_by_key: dict[LoadKey, float]) -> tuple[Load, ...]:
    """Freeze what was counted."""
    return tuple(
        Load(short, running, None if step is None else math.exp(step * _TPOT_STEP), seconds)
        for (short, running, step), seconds in seconds_by_key.items()
    )


def _short(interval: Interval) -> Short:
    if interval.preemptions:
        return Short.MEMORY
    if not interval.waiting:
        return Short.NOTHING
    return Short.MEMORY if _crowded(interval) else Short.SLOTS


def _crowded(interval: Interval) -> bool:
    """Whether the pool lacked room for one more sequence as large as the running ones' mean.

    After preemptions a small pool stands well below full with sequences waiting that do not fit, and vLLM's
    counter of them moves only when they run again (``v1/metrics/stats.py:update_from_events``).
    """
    used = interval.kv_used_ratio
    if used is None or not 0 <= used <= 1:
        return False
    return used >= _CROWDED_RATIO or used * (1 + 1 / max(1.0, interval.running or 0.0)) >= 1
