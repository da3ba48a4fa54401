"""How full the engines were: running against the cap, waiting, use of the KV pool, preemptions, TPOT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from vllm_advisor.evidence.intervals import Intervals, totals
from vllm_advisor.evidence.load import Load, LoadKey, Short, load_keys, loads
from vllm_advisor.sources.engine_series import Floats

__all__ = ["Occupancy", "OccupancySnapshot"]

_SLOT_SECONDS = 600.0
_KV_STEPS = 200
_PLATEAU_SHARE = 0.8
_PLATEAU_SECONDS = 10.0
_TOTALS = (
    "seconds",
    "busy_seconds",
    "waiting_seconds",
    "preemptions",
    "finished",
    "decode_seconds",
    "decode_tokens",
)


@dataclass(slots=True)
class _Slot:
    """Ten minutes, or the sum of several; KV use is counted in steps of half a percent."""

    seconds: float = 0.0
    busy_seconds: float = 0.0
    waiting_seconds: float = 0.0
    preemptions: float = 0.0
    finished: float = 0.0
    decode_seconds: float = 0.0
    decode_tokens: float = 0.0
    steps_by_running: dict[int, float] = field(default_factory=dict)
    seconds_by_kv_step: dict[int, float] = field(default_factory=dict)
    seconds_by_load: dict[LoadKey, float] = field(default_factory=dict)

    def observe(self, intervals: Intervals) -> None:
        """Count intervals of engines that were awake."""
        seconds, running, used = intervals.seconds, intervals.running, intervals.kv_used_ratio
        is_known, waits = ~np.isnan(running), intervals.waiting > 0
        busy = is_known & ((running > 0) | waits)
        columns = (
            *(seconds, seconds * busy, seconds * waits, intervals.preemptions, intervals.finished),
            *(intervals.decode_seconds, intervals.decode_tokens),
        )
        before = [getattr(self, name) for name in _TOTALS]
        for name, total in zip(_TOTALS, totals(np.vstack([before, np.stack(columns, axis=1)])), strict=True):
            setattr(self, name, total)
        stepped = is_known & (intervals.steps > 0)
        _count_each(self.steps_by_running, running[stepped].astype(int).tolist(), intervals.steps[stepped])
        _count_each(self.seconds_by_load, load_keys(intervals.rows(busy)), seconds[busy])
        told = (used >= 0) & (used <= 1)
        kv_steps = np.round(used[told] * _KV_STEPS).astype(int).tolist()
        _count_each(self.seconds_by_kv_step, kv_steps, seconds[told])

    def add(self, other: _Slot) -> None:
        for name in _TOTALS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for running, steps in other.steps_by_running.items():
            _count(self.steps_by_running, running, steps)
        for kv_step, seconds in other.seconds_by_kv_step.items():
            _count(self.seconds_by_kv_step, kv_step, seconds)
        for load, seconds in other.seconds_by_load.items():
            _count(self.seconds_by_load, load, seconds)

    def state(self) -> dict[str, Any]:
        return {
            "totals": [getattr(self, name) for name in _TOTALS],
            "steps": [list(pair) for pair in self.steps_by_running.items()],
            "kv": [list(pair) for pair in self.seconds_by_kv_step.items()],
            "loads": [[*key, seconds] for key, seconds in self.seconds_by_load.items()],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        loads_seen = {
            (Short(short), running, step): seconds for short, running, step, seconds in state["loads"]
        }
        totals = dict(zip(_TOTALS, state["totals"], strict=True))
        return cls(
            **totals,
            steps_by_running=dict(state["steps"]),
            seconds_by_kv_step=dict(state["kv"]),
            seconds_by_load=loads_seen,
        )


_Key = TypeVar("_Key", int, LoadKey)


def _count(counts: dict[_Key, float], key: _Key, amount: float) -> None:
    counts[key] = counts.get(key, 0.0) + amount


def _count_each(counts: dict[_Key, float], keys: Iterable[_Key], amounts: Floats) -> None:
    for key, amount in zip(keys, amounts.tolist(), strict=True):
        counts[key] = counts.get(key, 0.0) + amount


@dataclass(frozen=True, slots=True)
class OccupancySnapshot:
    """Occupancy over a window.

    Args:
        window_seconds: how far back it reaches.
        observed_seconds: engine-seconds observed.
        busy_seconds: of these, with something running.
        waiting_seconds: of these, with requests waiting.
        preemptions: sequences preempted.
        finished: sequences finished.
        greatest_running: most sequences seen running on one engine.
        steps_by_running: engine steps by the number of running sequences.
        seconds_by_kv_used_ratio: engine-seconds by share of the pool in use.
        loads: busy engine-seconds by what was short.
        tpot_mean_seconds: over all decoded tokens, None without any.
        plateau: running sequences that waiting requests never got past while the pool had room: the cap, if
            nothing better tells it.
    """

    window_seconds: float
    observed_seconds: float
    busy_seconds: float
    waiting_seconds: float
    preemptions: float
    finished: float
    greatest_running: int
    steps_by_running: Mapping[int, float]
    seconds_by_kv_used_ratio: Mapping[float, float]
    loads: tuple[Load, ...]
    tpot_mean_seconds: float | None
    plateau: int | None

    def steps_at_cap_ratio(self, cap: int | None) -> float | None:
        """Return the share of engine steps with at least ``cap`` sequences running."""
        steps = sum(self.steps_by_running.values())
        if cap is None or not steps:
            return None
        return sum(count for running, count in self.steps_by_running.items() if running >= cap) / steps

    def short_ratio(self, short: Short) -> float:
        """Return the share of busy time in which something was short, 0 where nothing was ever busy."""
        busy_seconds = sum(load.seconds for load in self.loads)
        wanted = sum(load.seconds for load in self.loads if load.short is short)
        return wanted / busy_seconds if busy_seconds else 0.0

    def running_quantile(self, quantile: float) -> int | None:
        """Return the number of running sequences at a quantile of the engine steps."""
        running = _quantile(self.steps_by_running.items(), quantile)
        return None if running is None else int(running)

    def kv_used_ratio(self, quantile: float) -> float | None:
        """Return the share of the pool in use at a quantile of time."""
        return _quantile(self.seconds_by_kv_used_ratio.items(), quantile)

    def tpot_quantile_seconds(self, quantile: float) -> float | None:
        """Return the time per output token between two pages, at a quantile of time."""
        known = [(load.tpot_seconds, load.seconds) for load in self.loads if load.tpot_seconds is not None]
        return _quantile(known, quantile)


class Occupancy:
    """Rolling occupancy of a deployment's engines, in slots of ten minutes.

    Memory: a few counters a slot, by number of running sequences, by half percent of the pool and by load.
    """

    def __init__(self, window_seconds: float = 86400.0) -> None:
        self._window = window_seconds
        self._slots: dict[int, _Slot] = {}
        self._closed: dict[tuple[int, int], _Slot] = {}

    def observe(self, intervals: Intervals) -> None:
        """Take in what engines did between two pages."""
        for number, those in intervals.rows(intervals.awake).by_slot(_SLOT_SECONDS):
            self._slot(number).observe(those)

    def start_epoch(self) -> None:
        """Forget everything: the engines run with other flags now."""
        self._slots.clear()
        self._closed.clear()

    def snapshot(self, now_seconds: float, window_seconds: float | None = None) -> OccupancySnapshot:
        """Return what was seen up to now; slots before the whole window are forgotten.

        Args:
            now_seconds: the end of the window.
            window_seconds: how much of it to look at, all of it unless given.
        """
        current, oldest = _slot_at(now_seconds), _slot_at(now_seconds - self._window)
        self._slots = {number: slot for number, slot in self._slots.items() if number > oldest}
        looked_at = self._window if window_seconds is None else window_seconds
        total = self._total(_slot_at(now_seconds - looked_at), current)
        return OccupancySnapshot(
            window_seconds=looked_at,
            observed_seconds=total.seconds,
            busy_seconds=total.busy_seconds,
            waiting_seconds=total.waiting_seconds,
            preemptions=total.preemptions,
            finished=total.finished,
            greatest_running=max(total.steps_by_running, default=0),
            steps_by_running=dict(total.steps_by_running),
            seconds_by_kv_used_ratio={
                step / _KV_STEPS: seconds for step, seconds in total.seconds_by_kv_step.items()
            },
            loads=loads(total.seconds_by_load),
            tpot_mean_seconds=total.decode_seconds / total.decode_tokens if total.decode_tokens else None,
            plateau=_plateau(total.seconds_by_load),
        )

    def _slot(self, number: int) -> _Slot:
        """Return the slot to count in; sums that it was part of hold no longer."""
        if any(number < current for _, current in self._closed):
            self._closed.clear()
        return self._slots.setdefault(number, _Slot())

    def _total(self, after: int, current: int) -> _Slot:
        """Sum the slots after one up; those before the current one are summed once in ten minutes."""
        closed = self._closed.get((after, current))
        if closed is None:
            self._closed = {key: one for key, one in self._closed.items() if key[1] == current}
            closed = self._closed[after, current] = _sum(
                slot for number, slot in self._slots.items() if after < number < current
            )
        return _sum([closed, *(slot for number, slot in self._slots.items() if number >= current)])

    def state(self) -> dict[str, Any]:
        """Return the content as plain JSON values."""
        return {str(number): slot.state() for number, slot in self._slots.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], window_seconds: float = 86400.0) -> Self:
        """Rebuild what `state` gave."""
        occupancy = cls(window_seconds)
        occupancy._slots = {int(number): _Slot.from_state(saved) for number, saved in state.items()}
        return occupancy


def _sum(slots: Iterable[_Slot]) -> _Slot:
    total = _Slot()
    for slot in slots:
        total.add(slot)
    return total


def _slot_at(time_seconds: float) -> int:
    return int(time_seconds // _SLOT_SECONDS)


def _quantile(seconds_by_value: Iterable[tuple[float, float]], quantile: float) -> float | None:
    """Return the least value under or at which a part of the time lies, None without any."""
    ascending = sorted(seconds_by_value)
    left = quantile * sum(seconds for _, seconds in ascending)
    for value, seconds in ascending:
        left -= seconds
        if left <= 1e-9:
            return value
    return ascending[-1][0] if ascending else None


def _plateau(seconds_by_load: Mapping[LoadKey, float]) -> int | None:
    """Return the most sequences that ran while others waited for a slot, if they nearly always did."""
    queued: dict[int, float] = {}
    for (short, running, _), seconds in seconds_by_load.items():
        if short is Short.SLOTS and running:
            _count(queued, running, seconds)
    if sum(queued.values()) < _PLATEAU_SECONDS:
        return None
    highest = max(queued)
    return highest if queued[highest] >= _PLATEAU_SHARE * sum(queued.values()) else None
