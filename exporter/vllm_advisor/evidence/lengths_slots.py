"""Length counts in time slots, so that a window forgets exactly what left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.lengths_distribution import BUCKETS
from vllm_advisor.evidence.sparse_counts import SparseCounts

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
    _counts: SparseCounts | None = None
    _state: list[Any] | None = None

    def add(self, counts: NDArray[np.int64], seen: Slot) -> None:
        """Count what was seen: `SLOT_CELLS` counts, and the rest as a slot of its own."""
        self.first_seconds = min(self.first_seconds, seen.first_seconds)
        self.last_seconds = max(self.last_seconds, seen.last_seconds)
        self.longest_tokens = max(self.longest_tokens, seen.longest_tokens)
        self.outcomes = self.outcomes + seen.outcomes
        self._counts = SparseCounts.of(self.whole() + counts)
        self._state = None

    def whole(self) -> NDArray[np.int64]:
        """Return every count, zeros included."""
        whole = np.zeros(SLOT_CELLS, np.int64)
        self.add_to(whole)
        return whole

    def add_to(self, counts: NDArray[np.int64]) -> None:
        """Add every count to some others."""
        if self._counts:
            self._counts.add_to(counts)

    def state(self) -> list[Any]:
        """Return the slot as plain JSON values, the same object until it changes."""
        if self._state is None:
            self._state = [
                self.first_seconds,
                self.last_seconds,
                self.longest_tokens,
                dict(self.outcomes),
                *(self._counts.texts() if self._counts else ("", "")),
            ]
        return self._state

    @classmethod
    def from_state(cls, state: list[Any]) -> Slot:
        """Rebuild a slot from its `state`, which it keeps.

        Raises:
            TypeError, ValueError: the state is not one that `state` gave.
        """
        first, last, longest, outcomes, cells, counts = state
        held = SparseCounts.from_texts(cells, counts)
        return cls(float(first), float(last), int(longest), Counter(outcomes), held, state)


class LengthSlots:
    """The slots of a window and their sum.

    Args:
        kept: number of slots that the window spans; twice that many are held at most.
        slots: those to begin with, by number.
        total: their sum, worked out unless given.
    """

    def __init__(
        self, kept: int, slots: dict[int, Slot] | None = None, total: SparseCounts | None = None
    ) -> None:
        self._kept = kept
        self._slots = slots or {}
        self._sum = np.zeros(SLOT_CELLS, np.int64)
        for counts in [total] if total else self._slots.values():
            counts.add_to(self._sum)

    @property
    def total(self) -> SparseCounts:
        """Every slot's counts together."""
        return SparseCounts.of(self._sum)

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
