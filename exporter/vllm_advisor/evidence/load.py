"""What one engine was short of over an interval, as far as its page tells without knowing cap or target."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.intervals import Intervals, known_or_0
from vllm_advisor.sources.engine_series import Floats

__all__ = ["Load", "LoadKey", "Short", "load_keys", "loads"]

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


_KINDS = tuple(Short)

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


def load_keys(intervals: Intervals) -> Iterator[LoadKey]:
    """Yield under what kind of load each interval falls."""
    short = _short(intervals)
    slots = np.where(short == _KINDS.index(Short.SLOTS), known_or_0(intervals.running), 0).astype(int)
    spent = (intervals.decode_tokens > 0) & (intervals.decode_seconds > 0)
    ratios = np.divide(
        intervals.decode_seconds, intervals.decode_tokens, where=spent, out=np.ones(len(spent))
    )
    steps = np.round(np.log(ratios) / _TPOT_STEP).astype(int)
    columns = short.tolist(), slots.tolist(), spent.tolist(), steps.tolist()
    for kind, running, has_tpot, step in zip(*columns, strict=True):
        yield _KINDS[kind], running, step if has_tpot else None


def loads(seconds_by_key: dict[LoadKey, float]) -> tuple[Load, ...]:
    """Freeze what was counted."""
    return tuple(
        Load(short, running, None if step is None else math.exp(step * _TPOT_STEP), seconds)
        for (short, running, step), seconds in seconds_by_key.items()
    )


def _short(intervals: Intervals) -> NDArray[np.intp]:
    waits = intervals.waiting > 0
    crowded = _crowded(intervals.kv_used_ratio, known_or_0(intervals.running))
    memory = (intervals.preemptions > 0) | (waits & crowded)
    kinds = np.where(waits, _KINDS.index(Short.SLOTS), _KINDS.index(Short.NOTHING))
    return np.where(memory, _KINDS.index(Short.MEMORY), kinds)


def _crowded(used_ratio: Floats, running: Floats) -> NDArray[np.bool_]:
    """Tell where the pool lacked room for one more sequence as large as the running ones' mean.

    After preemptions a small pool stands well below full with sequences waiting that do not fit, and vLLM's
    counter of them moves only when they run again (``v1/metrics/stats.py:update_from_events``).
    """
    full = (used_ratio >= _CROWDED_RATIO) | (used_ratio * (1 + 1 / np.maximum(1.0, running)) >= 1)
    return full & (used_ratio >= 0) & (used_ratio <= 1)
