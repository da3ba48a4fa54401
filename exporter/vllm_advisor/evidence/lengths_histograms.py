"""The engine's own length histograms over the window, for deployments without access logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.intervals import Intervals
from vllm_advisor.evidence.length_bounds import LengthBounds, LengthHistogram, Marginal

__all__ = ["HistogramSlots"]

_Layout = tuple[tuple[float, ...], tuple[float, ...]]
"""The finite edges of prompt and of generation buckets."""


@dataclass(slots=True)
class _Slot:
    first_seconds: float
    last_seconds: float
    counts: dict[_Layout, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, layout: _Layout, prompt: NDArray[np.float64], output: NDArray[np.float64]) -> None:
        held = self.counts.get(layout)
        self.counts[layout] = (held[0] + prompt, held[1] + output) if held else (prompt, output)


class HistogramSlots:
    """New observations of both histograms by slot of time and bucket layout.

    A layout follows from ``--max-model-len``: one deployment's engines share it until a restart changes it.
    """

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}

    @property
    def window_seconds(self) -> float:
        """From the start of the first interval held to the end of the last."""
        if not self._slots:
            return 0.0
        slots = self._slots.values()
        return max(slot.last_seconds for slot in slots) - min(slot.first_seconds for slot in slots)

    def observe(self, number: int, intervals: Intervals) -> None:
        """Count intervals in a slot, those in which requests finished."""
        prompt, output = intervals.prompt_lengths, intervals.generation_lengths
        if prompt is None or output is None:
            return
        finished = prompt.counts.any(axis=1) | output.counts.any(axis=1)
        finished &= prompt.known & output.known
        if not finished.any():
            return
        first = float(intervals.start_seconds[finished].min())
        last = float(intervals.end_seconds[finished].max())
        slot = self._slots.setdefault(number, _Slot(first, last))
        slot.first_seconds, slot.last_seconds = min(slot.first_seconds, first), max(slot.last_seconds, last)
        layout = (prompt.bounds[:-1], output.bounds[:-1])
        slot.add(layout, prompt.summed(finished), output.summed(finished))

    def forget(self, oldest: float) -> None:
        """Drop the slots up to and with ``oldest``."""
        for number in [number for number in self._slots if number <= oldest]:
            del self._slots[number]

    def bounds(self, limit_tokens: int | None = None) -> LengthBounds | None:
        """Return what the window's histograms say, None without a finished request.

        Args:
            limit_tokens: today's --max-model-len; used unless a layout shows that it was higher.
        """
        prompts, outputs = [], []
        for slot in self._slots.values():
            for (prompt_edges, output_edges), (prompt, output) in slot.counts.items():
                prompts.append(LengthHistogram(prompt_edges, tuple(prompt)))
                outputs.append(LengthHistogram(output_edges, tuple(output)))
        if not prompts:
            return None
        requests = round(max(sum(sum(h.counts) for h in histograms) for histograms in (prompts, outputs)))
        if limit_tokens is not None and any(h.edges_tokens[-1:] > (limit_tokens,) for h in prompts):
            limit_tokens = None
        return LengthBounds(Marginal.of(prompts, requests), Marginal.of(outputs, requests), limit_tokens)

    def merge(self, other: HistogramSlots) -> None:
        """Take in another's content."""
        for number, slot in other._slots.items():
            held = self._slots.setdefault(number, _Slot(slot.first_seconds, slot.last_seconds))
            held.first_seconds = min(held.first_seconds, slot.first_seconds)
            held.last_seconds = max(held.last_seconds, slot.last_seconds)
            for layout, (prompt, output) in slot.counts.items():
                held.add(layout, prompt, output)

    def state(self) -> list[dict[str, Any]]:
        """Return the content as plain JSON values."""
        return [
            {
                "slot": number,
                "first": slot.first_seconds,
                "last": slot.last_seconds,
                "edges": [list(edges) for edges in layout],
                "counts": [counts.tolist() for counts in pair],
            }
            for number, slot in self._slots.items()
            for layout, pair in slot.counts.items()
        ]

    @classmethod
    def from_state(cls, state: list[Mapping[str, Any]]) -> HistogramSlots:
        """Rebuild the content from its `state`.

        Raises:
            KeyError, TypeError, ValueError: the state is not one that `state` gave.
        """
        slots = cls()
        for row in state:
            slot = slots._slots.setdefault(int(row["slot"]), _Slot(float(row["first"]), float(row["last"])))
            prompt_edges, output_edges = (tuple(float(edge) for edge in edges) for edges in row["edges"])
            prompt, output = (np.array(counts, np.float64) for counts in row["counts"])
            if (len(prompt), len(output)) != (len(prompt_edges) + 1, len(output_edges) + 1):
                raise ValueError("a histogram's counts do not fit its edges")
            slot.add((prompt_edges, output_edges), prompt, output)
        return slots
