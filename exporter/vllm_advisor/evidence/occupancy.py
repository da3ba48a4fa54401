"""How full the engines were: running against the cap, waiting, use of the KV pool, preemptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from vllm_advisor.evidence.interval import Interval

__all__ = ["Occupancy", "OccupancySnapshot"]

_SLOT_SECONDS = 3600.0
_KV_STEPS = 200
_KV_CROWDED_RATIO = 0.95
_PLATEAU_SHARE = 0.8
_PLATEAU_SECONDS = 10.0
_TOTALS = (
    "seconds",
    "busy_seconds",
    "waiting_seconds",
    "memory_seconds",
    "preemptions",
    "finished",
)


@dataclass(slots=True)
class _Slot:
    """One hour, or the sum of several; KV use is counted in steps of half a percent."""

    seconds: float = 0.0
    busy_seconds: float = 0.0
    waiting_seconds: float = 0.0
    memory_seconds: float = 0.0
    preemptions: float = 0.0
    finished: float = 0.0
    steps_by_running: dict[int, float] = field(default_factory=dict)
    seconds_by_kv_step: dict[int, float] = field(default_factory=dict)
    queued_seconds_by_running: dict[int, float] = field(default_factory=dict)

    def add(self, other: _Slot) -> None:
        for name in _TOTALS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for counts, more in zip(self.counts, other.counts, strict=True):
            for key, amount in more.items():
                _count(counts, key, amount)

    @property
    def counts(self) -> tuple[dict[int, float], ...]:
        return self.steps_by_running, self.seconds_by_kv_step, self.queued_seconds_by_running


def _count(counts: dict[int, float], key: int, amount: float) -> None:
    counts[key] = counts.get(key, 0.0) + amount


@dataclass(frozen=True, slots=True)
class OccupancySnapshot:
    """Occupancy over a window.

    Args:
        observed_seconds: engine-seconds observed.
        busy_seconds: of these, with something running.
        waiting_seconds: of these, with requests waiting.
        memory_seconds: of these, with requests waiting while the pool was nearly full.
        preemptions: sequences preempted.
        finished: sequences finished.
        greatest_running: most sequences seen running on one engine.
        steps_by_running: engine steps by the number of running sequences.
        seconds_by_kv_used_ratio: engine-seconds by share of the pool in use.
        plateau: running sequences that waiting requests never got past while the pool had room: the cap, if
            nothing better tells it.
    """

    observed_seconds: float
    busy_seconds: float
    waiting_seconds: float
    memory_seconds: float
    preemptions: float
    finished: float
    greatest_running: int
    steps_by_running: Mapping[int, float]
    seconds_by_kv_used_ratio: Mapping[float, float]
    plateau: int | None

    def steps_at_cap_ratio(self, cap: int | None) -> float | None:
        """Return the share of engine steps with at least ``cap`` sequences running."""
        steps = sum(self.steps_by_running.values())
        if cap is None or not steps:
            return None
        return sum(count for running, count in self.steps_by_running.items() if running >= cap) / steps

    def kv_used_ratio(self, quantile: float) -> float | None:
        """Return the share of the pool in use at a quantile of time."""
        total = sum(self.seconds_by_kv_used_ratio.values())
        if not total:
            return None
        reached = 0.0
        for used_ratio, seconds in sorted(self.seconds_by_kv_used_ratio.items()):
            reached += seconds
            if reached >= quantile * total:
                return used_ratio
        return max(self.seconds_by_kv_used_ratio)


class Occupancy:
    """Rolling occupancy of a deployment's engines, in slots of an hour.

    Memory: a few counters a slot, by number of running sequences and by half percent of the pool.
    """

    def __init__(self, window_seconds: float = 86400.0) -> None:
        self._window_seconds = window_seconds
        self._slots: dict[int, _Slot] = {}

    def observe(self, interval: Interval) -> None:
        """Take in what one engine did between two pages."""
        if not interval.awake:
            return
        slot = self._slots.setdefault(int(interval.end_seconds // _SLOT_SECONDS), _Slot())
        seconds, running = interval.seconds, int(interval.running or 0)
        slot.seconds += seconds
        slot.preemptions += interval.preemptions
        slot.finished += interval.finished
        if interval.steps:
            _count(slot.steps_by_running, running, interval.steps)
        if running:
            slot.busy_seconds += seconds
        used_ratio = interval.kv_used_ratio
        if used_ratio is not None and 0 <= used_ratio <= 1:
            _count(slot.seconds_by_kv_step, round(used_ratio * _KV_STEPS), seconds)
        if interval.waiting:
            slot.waiting_seconds += seconds
            if used_ratio is not None and used_ratio >= _KV_CROWDED_RATIO:
                slot.memory_seconds += seconds
            elif not interval.preemptions:
                _count(slot.queued_seconds_by_running, running, seconds)

    def start_epoch(self) -> None:
        """Forget everything: the engines run with other flags now."""
        self._slots.clear()

    def snapshot(self, now_seconds: float) -> OccupancySnapshot:
        """Return the window that ends now; slots before it are forgotten."""
        oldest = int((now_seconds - self._window_seconds) // _SLOT_SECONDS)
        self._slots = {start: slot for start, slot in self._slots.items() if start > oldest}
        total = _Slot()
        for slot in self._slots.values():
            total.add(slot)
        return OccupancySnapshot(
            observed_seconds=total.seconds,
            busy_seconds=total.busy_seconds,
            waiting_seconds=total.waiting_seconds,
            memory_seconds=total.memory_seconds,
            preemptions=total.preemptions,
            finished=total.finished,
            greatest_running=max(total.steps_by_running, default=0),
            steps_by_running=dict(total.steps_by_running),
            seconds_by_kv_used_ratio={
                step / _KV_STEPS: seconds for step, seconds in total.seconds_by_kv_step.items()
            },
            plateau=_plateau(total.queued_seconds_by_running),
        )

    def state(self) -> dict[str, Any]:
        """Return the content as plain JSON values."""
        return {
            str(start): {
                "totals": [getattr(slot, name) for name in _TOTALS],
                "counts": [{str(key): value for key, value in counts.items()} for counts in slot.counts],
            }
            for start, slot in self._slots.items()
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], window_seconds: float = 86400.0) -> Self:
        """Rebuild what `state` gave."""
        occupancy = cls(window_seconds)
        for start, saved in state.items():
            counts = ({int(key): value for key, value in one.items()} for one in saved["counts"])
            occupancy._slots[int(start)] = _Slot(*saved["totals"], *counts)
        return occupancy


def _plateau(queued_seconds_by_running: Mapping[int, float]) -> int | None:
    """Return the most sequences that ran while others waited, if they nearly always did."""
    total = sum(queued_seconds_by_running.values())
    if total < _PLATEAU_SECONDS:
        return None
    highest = max(queued_seconds_by_running)
    return highest if queued_seconds_by_running[highest] >= _PLATEAU_SHARE * total else None
