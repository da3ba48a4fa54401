"""Context lengths over a rolling window, from access logs or from the engine's own histograms."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.intervals import Intervals
from vllm_advisor.evidence.lengths_distribution import BUCKETS, LengthDistribution, buckets_of
from vllm_advisor.evidence.lengths_histograms import HistogramSlots
from vllm_advisor.evidence.lengths_slots import SLOT_CELLS, LengthKind, LengthSlots, Slot
from vllm_advisor.evidence.lengths_snapshot import ContextSnapshot, LengthSource
from vllm_advisor.evidence.sparse_counts import SparseCounts
from vllm_advisor.sources.access_logs.request import Logged, LoggedRequest, Outcome, ServedBlock

__all__ = ["ContextLengths", "ContextSnapshot", "LengthDistribution", "LengthSource"]

_SLOTS_A_WINDOW = 168
_DAY_SECONDS = 86400.0
_PENDING = 4096


class ContextLengths:
    """Rolling context lengths of one deployment.

    Observations carry their own time; those older than the window at the last snapshot are counted as late
    and left out. One from the future stays until the window has passed it: whoever reads a log leaves out
    what is too far ahead.

    Args:
        window_seconds: how far back lengths count; infinite for all there is.
        slot_seconds: the grain in which the window forgets, a 168th of the window unless given.
    """

    def __init__(self, window_seconds: float, *, slot_seconds: float | None = None) -> None:
        bounded = math.isfinite(window_seconds)
        grain_seconds = slot_seconds or max(window_seconds / _SLOTS_A_WINDOW, 1.0)
        self._slot_seconds = grain_seconds if bounded else math.inf
        self._kept = math.ceil(window_seconds / self._slot_seconds) if bounded else 1
        self._window_seconds = window_seconds
        self._slots = LengthSlots(self._kept)
        self._histograms = HistogramSlots()
        self._pending: list[LoggedRequest] = []
        self._oldest = -math.inf
        self._late = 0

    def observe(self, logged: Logged) -> None:
        """Take in one logged request, or a block of them."""
        if isinstance(logged, ServedBlock):
            self._count(logged)
            return
        self._pending.append(logged)
        if len(self._pending) >= _PENDING:
            self._flush()

    def observe_histograms(self, intervals: Intervals) -> None:
        """Take in what engines' prompt and generation histograms gained between two pages."""
        for number, those in intervals.by_slot(self._slot_seconds):
            self._histograms.observe(number, those)

    def snapshot(self, now_seconds: float, *, limit_tokens: int | None = None) -> ContextSnapshot:
        """Forget what left the window, and return what is in it.

        Args:
            now_seconds: the end of the window.
            limit_tokens: today's --max-model-len, which bounds what the engine's histograms can hold.
        """
        self._flush()
        self._forget(now_seconds)
        slots = self._slots.all()
        distributions = {kind: LengthDistribution(self._slots.counts(kind)) for kind in LengthKind}
        source, window_seconds, bounds = (
            LengthSource.ACCESS_LOG,
            _span(slots),
            self._histograms.bounds(limit_tokens),
        )
        if bounds is not None and not distributions[LengthKind.TOTAL].requests:
            source, window_seconds = LengthSource.HISTOGRAMS, self._histograms.window_seconds
            distributions |= zip(LengthKind, bounds.estimates(), strict=False)
        return ContextSnapshot(
            source=source,
            window_seconds=window_seconds,
            total=distributions[LengthKind.TOTAL],
            prompt=distributions[LengthKind.PROMPT],
            output=distributions[LengthKind.OUTPUT],
            requested=distributions[LengthKind.REQUESTED],
            cut=distributions[LengthKind.CUT],
            longest_tokens=_longest(slots),
            longest_last_day_tokens=_longest(
                [s for s in slots if s.last_seconds > now_seconds - _DAY_SECONDS]
            ),
            outcomes=sum((slot.outcomes for slot in slots), Counter()),
            late=self._late,
            bounds=bounds,
        )

    def merge(self, other: ContextLengths) -> None:
        """Take in another window's content; both must have slots of the same length."""
        other._flush()
        for number, slot in other._slots.items():
            self._slots.put(number, slot)
        self._histograms.merge(other._histograms)
        self._late += other._late

    def state(self) -> dict[str, Any]:
        """Return the content as plain JSON values under one key a slot.

        A slot's value is the same object until the slot changes, so that a store need not write it again.
        """
        self._flush()
        head = {
            "window_seconds": self._window_seconds,
            "slot_seconds": self._slot_seconds,
            "late": self._late,
            "histograms": self._histograms.state(),
            "total": list(self._slots.total.texts()),
        }
        return {"head": head} | {f"slot/{number}": slot.state() for number, slot in self._slots.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], window_seconds: float | None = None) -> ContextLengths:
        """Rebuild the content, for a window of the same length unless another is given.

        Raises:
            KeyError, TypeError, ValueError: the state is not one that `state` gave.
        """
        head = state["head"]
        window_seconds = float(head["window_seconds"]) if window_seconds is None else window_seconds
        lengths = cls(window_seconds, slot_seconds=float(head["slot_seconds"]))
        lengths._late = int(head["late"])
        lengths._histograms = HistogramSlots.from_state(head["histograms"])
        slots = {
            int(key.removeprefix("slot/")): Slot.from_state(value)
            for key, value in state.items()
            if key.startswith("slot/")
        }
        total = head.get("total")
        lengths._slots = LengthSlots(lengths._kept, slots, SparseCounts.from_texts(*total) if total else None)
        return lengths

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        served, others = [], defaultdict(list)
        for request in pending:
            if request.outcome is Outcome.SERVED:
                served.append(request)
            else:
                others[self._number(request.time_seconds or 0.0)].append(request)
        if served:
            self._count(_block(served))
        for number, requests in others.items():
            self._add(number, _asked_counts(requests), _seen_others(requests))

    def _count(self, block: ServedBlock) -> None:
        numbers = np.floor(block.time_seconds / self._slot_seconds)
        first, last = int(numbers.min()), int(numbers.max())
        if first == last:
            self._add(first, _counts(block, slice(None)), _seen(block, slice(None)))
            return
        for number in np.unique(numbers):
            rows = numbers == number
            self._add(int(number), _counts(block, rows), _seen(block, rows))

    def _add(self, number: int, counts: NDArray[np.int64], seen: Slot) -> None:
        if number <= self._oldest:
            self._late += seen.outcomes.total()
        else:
            self._slots.add(number, counts, seen)

    def _forget(self, now_seconds: float) -> None:
        self._oldest = self._number(now_seconds) - self._kept
        self._slots.forget(self._oldest)
        self._histograms.forget(self._oldest)

    def _number(self, time_seconds: float) -> int:
        return math.floor(time_seconds / self._slot_seconds)


def _block(served: Sequence[LoggedRequest]) -> ServedBlock:
    return ServedBlock(
        time_seconds=np.array([request.time_seconds or 0.0 for request in served]),
        prompt_tokens=np.array([request.prompt_tokens for request in served], np.int64),
        output_tokens=np.array([request.output_tokens for request in served], np.int64),
        max_tokens=np.array([-1 if r.max_tokens is None else r.max_tokens for r in served], np.int64),
        cut_by_length=np.array([request.cut_by_length for request in served]),
    )


def _counts(block: ServedBlock, rows: slice | NDArray[np.bool_]) -> NDArray[np.int64]:
    prompt, output, asked = block.prompt_tokens[rows], block.output_tokens[rows], block.max_tokens[rows]
    totals = prompt + output
    lengths = {
        LengthKind.TOTAL: totals,
        LengthKind.PROMPT: prompt,
        LengthKind.OUTPUT: output,
        LengthKind.REQUESTED: (prompt + asked)[asked >= 0],
        LengthKind.CUT: totals[block.cut_by_length[rows]],
    }
    cells = buckets_of(np.concatenate(list(lengths.values())))
    cells += np.repeat([kind * BUCKETS for kind in lengths], [tokens.size for tokens in lengths.values()])
    return np.bincount(cells, minlength=SLOT_CELLS)


def _seen(block: ServedBlock, rows: slice | NDArray[np.bool_]) -> Slot:
    times = block.time_seconds[rows]
    longest = int((block.prompt_tokens[rows] + block.output_tokens[rows]).max())
    outcomes = Counter({str(Outcome.SERVED): times.size})
    return Slot(float(times.min()), float(times.max()), longest, outcomes)


def _asked_counts(requests: Sequence[LoggedRequest]) -> NDArray[np.int64]:
    """Count what refused requests asked for, where the refusal says."""
    asked = [
        request.prompt_tokens + request.max_tokens
        for request in requests
        if request.prompt_tokens is not None and request.max_tokens is not None
    ]
    cells = buckets_of(np.array(asked, np.int64)) + LengthKind.REQUESTED * BUCKETS
    return np.bincount(cells, minlength=SLOT_CELLS)


def _seen_others(requests: Sequence[LoggedRequest]) -> Slot:
    times = [request.time_seconds or 0.0 for request in requests]
    return Slot(min(times), max(times), 0, Counter(str(request.outcome) for request in requests))


def _span(slots: Sequence[Slot]) -> float:
    if not slots:
        return 0.0
    return max(slot.last_seconds for slot in slots) - min(slot.first_seconds for slot in slots)


def _longest(slots: Sequence[Slot]) -> int | None:
    return max((slot.longest_tokens for slot in slots if slot.longest_tokens), default=None)
