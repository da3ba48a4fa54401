"""What was recommended, and when it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from typing import Any, Self

__all__ = ["History", "HistoryPoint"]

_KEPT_SECONDS = 30 * 86400.0
_MOST_POINTS = 500


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What held from a moment on; None where there was no number.

    Args:
        time_seconds: Unix time.
        max_model_len: recommended, in tokens; ``configured_`` what the engines ran with.
        max_num_seqs: recommended, in sequences.
        memory_sequences: the memory ceiling; ``latency_sequences`` the latency ceiling.
    """

    time_seconds: float
    max_model_len: int | None
    configured_max_model_len: int | None
    max_num_seqs: int | None
    configured_max_num_seqs: int | None
    memory_sequences: int | None
    latency_sequences: int | None
    binding: str


class History:
    """The changes of a deployment's recommendation over the last thirty days.

    Memory: at most 500 points; beyond that the one that held for the shortest time goes.
    """

    def __init__(self, points: tuple[HistoryPoint, ...] = ()) -> None:
        self.points = points
        self._state = [list(astuple(point)) for point in points]

    def record(self, point: HistoryPoint) -> None:
        """Take in what holds now; nothing is kept where that is what held before."""
        if self.points and replace(self.points[-1], time_seconds=point.time_seconds) == point:
            return
        oldest = point.time_seconds - _KEPT_SECONDS
        later = [after for after in self.points if after.time_seconds >= oldest]
        held_then = self.points[len(self.points) - len(later) - 1 : len(self.points) - len(later)]
        points = [*held_then, *later, point]
        if len(points) > _MOST_POINTS:
            del points[_shortest(points)]
        self.points = tuple(points)
        self._state = [list(astuple(one)) for one in self.points]

    def state(self) -> dict[str, Any]:
        """Return the content as plain JSON values; the same object until it changes."""
        return {"points": self._state}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild what `state` gave."""
        return cls(tuple(HistoryPoint(*values) for values in state["points"]))


def _shortest(points: list[HistoryPoint]) -> int:
    lasted = [after.time_seconds - before.time_seconds for before, after in pairwise(points)]
    return min(range(1, len(lasted)), key=lasted.__getitem__)
