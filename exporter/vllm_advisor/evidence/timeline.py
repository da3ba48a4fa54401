"""Occupancy moment by moment over the last day: what a chart of it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np

from vllm_advisor.evidence.intervals import Intervals, known_or_0, runs, totals
from vllm_advisor.sources.engine_series import Floats

__all__ = ["Timeline", "TimelinePoint"]

_DAY_SECONDS = 86400.0
_HOUR_SECONDS = 3600.0
_COARSE_SECONDS = 300.0
_FINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """A stretch of time, over all engines of a deployment.

    Args:
        start_seconds: Unix time of its beginning.
        seconds: how long it is.
        running_mean: sequences running on one engine; ``running_max`` the most on any.
        waiting_mean: requests waiting before one engine.
        kv_used_mean_ratio: share of the KV pool in use, None where no page told.
        kv_used_max_ratio: the most on any engine, likewise.
    """

    start_seconds: float
    seconds: float
    running_mean: float
    running_max: float
    waiting_mean: float
    kv_used_mean_ratio: float | None
    kv_used_max_ratio: float | None


@dataclass(slots=True)
class _Cell:
    """Sums over the engine-seconds of one stretch."""

    seconds: float = 0.0
    running: float = 0.0
    running_max: float = 0.0
    waiting: float = 0.0
    kv_seconds: float = 0.0
    kv_used: float = 0.0
    kv_used_max: float = 0.0

    def add(self, sums: Floats, most: Floats) -> None:
        """Add some intervals: a row for each of what is summed, and of what the most is kept of."""
        before = (self.seconds, self.running, self.waiting, self.kv_seconds, self.kv_used)
        self.seconds, self.running, self.waiting, self.kv_seconds, self.kv_used = totals(
            np.vstack([before, sums])
        )
        running_max, kv_used_max = most.max(axis=0).tolist()
        self.running_max, self.kv_used_max = (
            max(self.running_max, running_max),
            max(self.kv_used_max, kv_used_max),
        )

    def point(self, start_seconds: float, grain_seconds: float) -> TimelinePoint:
        known = self.kv_seconds > 0
        return TimelinePoint(
            start_seconds=start_seconds,
            seconds=grain_seconds,
            running_mean=self.running / self.seconds,
            running_max=self.running_max,
            waiting_mean=self.waiting / self.seconds,
            kv_used_mean_ratio=self.kv_used / self.kv_seconds if known else None,
            kv_used_max_ratio=self.kv_used_max if known else None,
        )


class Timeline:
    """Rolling occupancy of a deployment: five-minute stretches of a day, ten-second ones of the last hour.

    Memory: at most 650 stretches of seven numbers. Only the five-minute ones outlive a restart.
    """

    def __init__(self) -> None:
        self._coarse: dict[int, _Cell] = {}
        self._fine: dict[int, _Cell] = {}

    def observe(self, intervals: Intervals) -> None:
        """Take in what engines did between two pages."""
        awake = intervals.rows(intervals.awake)
        if not len(awake):
            return
        seconds, running = awake.seconds, known_or_0(awake.running)
        used = np.where((awake.kv_used_ratio >= 0) & (awake.kv_used_ratio <= 1), awake.kv_used_ratio, np.nan)
        kv_seconds, kv_used = np.where(np.isnan(used), 0.0, seconds), known_or_0(used)
        waiting = known_or_0(awake.waiting)
        sums = np.stack(
            [seconds, running * seconds, waiting * seconds, kv_seconds, kv_used * seconds], axis=1
        )
        most = np.stack([running, kv_used], axis=1)
        newest_seconds = float(awake.end_seconds[-1])
        for cells, grain_seconds, kept_seconds in (
            (self._coarse, _COARSE_SECONDS, _DAY_SECONDS),
            (self._fine, _FINE_SECONDS, _HOUR_SECONDS),
        ):
            first = int(np.searchsorted(awake.end_seconds, newest_seconds - kept_seconds))
            numbers = np.floor_divide(awake.end_seconds[first:], grain_seconds)
            for start, end in runs(numbers):
                cell = cells.setdefault(int(numbers[start]), _Cell())
                cell.add(sums[first + start : first + end], most[first + start : first + end])
        self.forget(newest_seconds)

    def forget(self, now_seconds: float) -> None:
        """Drop what is older than the day, and fine stretches older than the hour."""
        self._coarse = _younger(self._coarse, (now_seconds - _DAY_SECONDS) / _COARSE_SECONDS)
        self._fine = _younger(self._fine, (now_seconds - _HOUR_SECONDS) / _FINE_SECONDS)

    def points(self) -> tuple[TimelinePoint, ...]:
        """Return the day in order of time, as finely as it is known."""
        first_fine = min(self._fine, default=0) * _FINE_SECONDS if self._fine else float("inf")
        coarse = (
            cell.point(number * _COARSE_SECONDS, _COARSE_SECONDS)
            for number, cell in sorted(self._coarse.items())
            if (number + 1) * _COARSE_SECONDS <= first_fine
        )
        fine = (
            cell.point(number * _FINE_SECONDS, _FINE_SECONDS) for number, cell in sorted(self._fine.items())
        )
        return (*coarse, *fine)

    def state(self) -> dict[str, Any]:
        """Return the five-minute stretches as plain JSON values, an hour under one key."""
        hours: dict[str, Any] = {}
        for number, cell in self._coarse.items():
            hour = str(int(number * _COARSE_SECONDS // _HOUR_SECONDS))
            hours.setdefault(hour, []).append([number, *astuple(cell)])
        return hours

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild what `state` gave."""
        timeline = cls()
        for stretches in state.values():
            for number, *sums in stretches:
                timeline._coarse[int(number)] = _Cell(*map(float, sums))
        return timeline


def _younger(cells: dict[int, _Cell], oldest: float) -> dict[int, _Cell]:
    if not cells or min(cells) >= oldest:
        return cells
    return {number: cell for number, cell in cells.items() if number >= oldest}
