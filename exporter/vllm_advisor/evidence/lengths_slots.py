"""Length counts in time slots, so that a window forgets exactly what left it."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.lengths_distribution import BUCKETS

__all__ = ["SLOT_CELLS", "LengthKind", "LengthSlots", "Slot"]


class LengthKind(IntEnum):
    """The lengths counted of each request."""

    TOTAL = 0
    PROMPT = 1
    OUTPUT = 2
    REQUESTED = 3
    """Prompt plus ``max_tokens``, where the log has it."""
    CUT = 4
    """Totals of answers that ended by length."""


SLOT_CELLS = len(LengthKind) * BUCKETS
"""Counts of one slot: every bucket of every kind, in a row."""


@dataclass(slots=True)
class Slot:
    """What was seen in one slot of time; its counts are sparse, a few bytes for each length seen.

    Args:
        first_seconds: time of the earliest observation.
        last_seconds: time of the latest one.
        longest_tokens: the longest total, exact.
        outcomes: observations by outcome.
    """

    first_seconds: float
    last_seconds: float
    longest_tokens: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    _cells: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    _counts: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    _state: list[Any] | None = None

    def add(self, counts: NDArray[np.int64], seen: Slot) -> None:
        """Count what was seen: `SLOT_CELLS` counts, and the rest as a slot of its own."""
        self.first_seconds = min(self.first_seconds, seen.first_seconds)
        self.last_seconds = max(self.last_seconds, seen.last_seconds)
        self.longest_tokens = max(self.longest_tokens, seen.longest_tokens)
        self.outcomes = self.outcomes + seen.outcomes
        whole = self.whole() + counts
        cells = np.flatnonzero(whole)
        self._cells, self._counts = cells.astype(np.uint16), whole[cells].astype(np.uint32)
        self._state = None

    def whole(self) -> NDArray[np.int64]:
        """Return every count, zeros included."""
        whole = np.zeros(SLOT_CELLS, np.int64)
        self.add_to(whole)
        return whole

    def add_to(self, counts: NDArray[np.int64]) -> None:
        """Add every count to some others."""
        counts[self._cells] += self._counts

    def state(self) -> list[Any]:
        """Return the slot as plain JSON values, the same object until it changes."""
        if self._state is None:
            self._state = [
                self.first_seconds,
                self.last_seconds,
                self.longest_tokens,
                dict(self.outcomes),
                _text(self._cells.astype("<u2")),
                _text(_narrowest(self._counts)),
            ]
        return self._state

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Slot:
        """Rebuild a slot from its `state`.

        Raises:
            TypeError, ValueError: the state is not one that `state` gave.
        """
        first, last, longest, outcomes, cells, counts = state
        own_cells = np.frombuffer(base64.b64decode(cells), "<u2")
        packed = base64.b64decode(counts)
        own_counts = np.frombuffer(packed, f"<u{len(packed) // max(own_cells.size, 1) or 1}")
        if own_cells.size != own_counts.size or (own_cells.size and own_cells[-1] >= SLOT_CELLS):
            raise ValueError("a slot's counts do not fit its cells")
        return cls(
            float(first),
            float(last),
            int(longest),
            Counter(outcomes),
            own_cells,
            own_counts.astype(np.uint32),
        )


class LengthSlots:
    """The slots of a window and their sum.

    Args:
        kept: number of slots that the window spans; twice that many are held at most.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._slots: dict[int, Slot] = {}
        self._sum = np.zeros(SLOT_CELLS, np.int64)

    def add(self, number: int, counts: NDArray[np.int64], seen: Slot) -> None:
        """Count what was seen in a slot; see `Slot.add`."""
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = Slot(seen.first_seconds, seen.last_seconds)
        slot.add(counts, seen)
        self._sum += counts
        if len(self._slots) > 2 * self._kept:
            self._drop(min(self._slots))

    def put(self, number: int, slot: Slot) -> None:
        """Take in a whole slot."""
        if number in self._slots:
            self.add(number, slot.whole(), slot)
        else:
            self._slots[number] = slot
            slot.add_to(self._sum)

    def forget(self, oldest: float) -> None:
        """Drop the slots up to and with ``oldest``."""
        for number in [number for number in self._slots if number <= oldest]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._sum -= self._slots.pop(number).whole()

    def counts(self, kind: LengthKind) -> NDArray[np.int64]:
        """Return the window's counts of one kind, a copy."""
        return self._sum[kind * BUCKETS : (kind + 1) * BUCKETS].copy()

    def items(self) -> Iterable[tuple[int, Slot]]:
        """Return the slots with their numbers."""
        return self._slots.items()

    def all(self) -> list[Slot]:
        """Return the slots."""
        return list(self._slots.values())


def _narrowest(counts: NDArray[np.uint32]) -> NDArray[Any]:
    widest = int(counts.max(initial=0))
    return counts.astype("<u1" if widest < 1 << 8 else "<u2" if widest < 1 << 16 else "<u4")


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
