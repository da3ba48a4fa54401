"""The recent shape of traffic against that of the window that the recommendation rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vllm_advisor.evidence.intervals import Intervals, total
from vllm_advisor.evidence.shape import Shape, cell_of, counts_of, spread_over_cells
from vllm_advisor.sources.access_logs.request import Logged, Outcome, ServedBlock

__all__ = ["ShapeSnapshot", "TrafficShape"]

_FINE_SECONDS = 600.0
_HOUR_SECONDS = 3600.0
_RECENT_SLOTS = 4
"""Between 30 and 40 minutes."""
_SATURATED_RATIO = 0.5
_QUIET_RATIO = 0.05


@dataclass(slots=True)
class _Slot:
    """A slot of time, or the sum of several: requests by length, from logs and pages, and how busy it was."""

    logged: Shape
    paged: Shape
    busy_seconds: float = 0.0
    waiting_seconds: float = 0.0

    @classmethod
    def empty(cls) -> _Slot:
        return cls(Shape.empty(), Shape.empty())

    def add(self, other: _Slot) -> None:
        self.logged = self.logged.plus(other.logged)
        self.paged = self.paged.plus(other.paged)
        self.busy_seconds += other.busy_seconds
        self.waiting_seconds += other.waiting_seconds

    @property
    def shape(self) -> Shape:
        """Logs say it exactly; pages where there are none."""
        return self.logged if self.logged.requests else self.paged

    @property
    def waiting_ratio(self) -> float:
        return self.waiting_seconds / self.busy_seconds if self.busy_seconds else 0.0

    def state(self) -> list[Any]:
        return [self.logged.state(), self.paged.state(), self.busy_seconds, self.waiting_seconds]

    @classmethod
    def from_state(cls, state: list[Any]) -> _Slot:
        logged, paged, busy_seconds, waiting_seconds = state
        return cls(Shape.from_state(logged), Shape.from_state(paged), busy_seconds, waiting_seconds)


@dataclass(frozen=True, slots=True)
class _Reference:
    before: Shape
    same_time: Shape
    saturated: Shape
    quiet: Shape
    saturated_ratio: float


@dataclass(frozen=True, slots=True)
class ShapeSnapshot:
    """Shapes to compare.

    Args:
        recent: the last half hour.
        recent_seconds: how far back that reaches.
        before: everything in the window up to an hour or two ago.
        same_time: of that, what fell within an hour of this time of day.
        saturated: what came in while requests waited most of the time.
        quiet: what came in while hardly any did.
        saturated_ratio: share of busy time that was saturated.
    """

    recent: Shape
    recent_seconds: float
    before: Shape
    same_time: Shape
    saturated: Shape
    quiet: Shape
    saturated_ratio: float


class TrafficShape:
    """Rolling shapes of a deployment's traffic: the last half hour finely, the window by the hour.

    Memory: some 1 KB an hour of the window.

    Args:
        window_seconds: how far back traffic counts.
    """

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._fine: dict[int, _Slot] = {}
        self._hours: dict[int, _Slot] = {}
        self._reference: tuple[int, _Reference] | None = None

    def observe_logged(self, logged: Logged) -> None:
        """Take in one line of an access log, or a block of them."""
        if isinstance(logged, ServedBlock):
            self._count(logged)
            return
        if logged.outcome is not Outcome.SERVED or logged.time_seconds is None:
            return
        if logged.prompt_tokens is None or logged.output_tokens is None:
            return
        prompt, output = cell_of(logged.prompt_tokens), cell_of(logged.output_tokens)
        for slot in self._slots(logged.time_seconds):
            slot.logged.prompts[prompt] += 1
            slot.logged.outputs[output] += 1

    def observe(self, intervals: Intervals) -> None:
        """Take in what engines did between two pages."""
        for number, those in intervals.by_slot(_FINE_SECONDS):
            waits = those.waiting > 0
            busy = (those.running > 0) | waits
            finished = _finished(those)
            for slot in self._slots(number * _FINE_SECONDS):
                slot.busy_seconds = total(slot.busy_seconds, those.seconds[busy])
                slot.waiting_seconds = total(slot.waiting_seconds, those.seconds[waits])
                if finished is not None:
                    slot.paged = slot.paged.plus(finished)

    def snapshot(self, now_seconds: float) -> ShapeSnapshot:
        """Return the shapes at one moment, and forget what left the window."""
        now = int(now_seconds // _FINE_SECONDS)
        self._fine = {number: slot for number, slot in self._fine.items() if number > now - _RECENT_SLOTS}
        if self._reference is None or self._reference[0] != now:
            self._reference = now, self._compared(now_seconds)
        reference = self._reference[1]
        return ShapeSnapshot(
            recent=_sum(list(self._fine.values())).shape,
            recent_seconds=now_seconds - (now - _RECENT_SLOTS + 1) * _FINE_SECONDS,
            before=reference.before,
            same_time=reference.same_time,
            saturated=reference.saturated,
            quiet=reference.quiet,
            saturated_ratio=reference.saturated_ratio,
        )

    def start_epoch(self) -> None:
        """Forget how busy the engines were: they run with other flags now. Traffic stays what it was."""
        for slot in (*self._fine.values(), *self._hours.values()):
            slot.busy_seconds = slot.waiting_seconds = 0.0
        self._reference = None

    def state(self) -> dict[str, Any]:
        """Return the content as plain JSON values."""
        return {
            grain: {str(number): slot.state() for number, slot in slots.items()}
            for grain, slots in (("fine", self._fine), ("hours", self._hours))
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self._fine, self._hours = (
            {int(number): _Slot.from_state(saved) for number, saved in state.get(grain, {}).items()}
            for grain in ("fine", "hours")
        )
        self._reference = None

    def _slots(self, time_seconds: float) -> tuple[_Slot, _Slot]:
        return (
            _slot(self._fine, int(time_seconds // _FINE_SECONDS)),
            _slot(self._hours, int(time_seconds // _HOUR_SECONDS)),
        )

    def _count(self, block: ServedBlock) -> None:
        numbers = np.floor(block.time_seconds / _FINE_SECONDS)
        for number in np.unique(numbers):
            rows = numbers == number
            shape = Shape(counts_of(block.prompt_tokens[rows]), counts_of(block.output_tokens[rows]))
            for slot in self._slots(float(number) * _FINE_SECONDS):
                slot.logged = slot.logged.plus(shape)

    def _compared(self, now_seconds: float) -> _Reference:
        """Sum the hours up; done anew every ten minutes, since that is the costly part."""
        now = int(now_seconds // _HOUR_SECONDS)
        recent_from = int((now_seconds - _RECENT_SLOTS * _FINE_SECONDS) // _HOUR_SECONDS)
        oldest = int((now_seconds - self._window_seconds) // _HOUR_SECONDS)
        self._hours = {number: slot for number, slot in self._hours.items() if oldest < number <= now}
        before = {number: slot for number, slot in self._hours.items() if number < recent_from}

        def those(wanted: Callable[[int, _Slot], bool]) -> _Slot:
            return _sum([slot for number, slot in before.items() if wanted(number, slot)])

        saturated = those(lambda _, slot: slot.waiting_ratio >= _SATURATED_RATIO)
        busy_seconds = sum(slot.busy_seconds for slot in before.values())
        return _Reference(
            before=those(lambda _, __: True).shape,
            same_time=those(lambda number, _: now - number > 2 and (now - number + 1) % 24 <= 2).shape,
            saturated=saturated.shape,
            quiet=those(lambda _, slot: slot.waiting_ratio <= _QUIET_RATIO).shape,
            saturated_ratio=saturated.busy_seconds / busy_seconds if busy_seconds else 0.0,
        )


def _finished(intervals: Intervals) -> Shape | None:
    """Return the shape of the requests that finished, None without any."""
    prompts, outputs = intervals.prompt_lengths, intervals.generation_lengths
    if prompts is None or outputs is None:
        return None
    finished = intervals.rows((intervals.finished > 0) & prompts.known & outputs.known)
    prompts, outputs = finished.prompt_lengths, finished.generation_lengths
    if not len(finished) or prompts is None or outputs is None:
        return None
    return Shape(spread_over_cells(prompts), spread_over_cells(outputs))


def _slot(slots: dict[int, _Slot], number: int) -> _Slot:
    found = slots.get(number)
    if found is None:
        found = slots[number] = _Slot.empty()
    return found


def _sum(slots: list[_Slot]) -> _Slot:
    total = _Slot.empty()
    for slot in slots:
        total.add(slot)
    return total
