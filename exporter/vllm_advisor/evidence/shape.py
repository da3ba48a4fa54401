"""The shape of traffic: how long prompts and answers are, whatever their number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.intervals import LengthCounts

__all__ = ["CELLS", "Shape", "cell_of", "counts_of", "spread_over_cells"]

_CELLS_PER_DOUBLING = 4
CELLS = 22 * _CELLS_PER_DOUBLING
"""Cells of a quarter doubling each, up to four million tokens."""
_BEYOND_LAST_BOUND = 2.5
"""Where the unbounded bucket is taken to end, over its lower bound: one step of the 1-2-5 series."""

Counts = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Shape:
    """Lengths of some requests.

    Args:
        prompts: requests by cell of their prompt tokens.
        outputs: the same by output tokens.
    """

    prompts: Counts
    outputs: Counts

    @classmethod
    def empty(cls) -> Shape:
        """Return the shape of no request."""
        return cls(np.zeros(CELLS, np.float32), np.zeros(CELLS, np.float32))

    def plus(self, other: Shape) -> Shape:
        """Return the shape of both one's requests."""
        return Shape(self.prompts + other.prompts, self.outputs + other.outputs)

    def state(self) -> list[list[list[float]]]:
        """Return the content as plain JSON values: cells and counts."""
        return [_sparse(self.prompts), _sparse(self.outputs)]

    @classmethod
    def from_state(cls, state: Iterable[Iterable[tuple[int, float]]]) -> Shape:
        """Rebuild what `state` gave."""
        return cls(*map(_dense, state))

    @property
    def requests(self) -> float:
        """Number of requests."""
        return float(self.outputs.sum())

    @property
    def output_tokens(self) -> float | None:
        """Typical answer: the geometric mean, None without requests."""
        return _typical_tokens(self.outputs)

    @property
    def prompt_tokens(self) -> float | None:
        """Typical prompt."""
        return _typical_tokens(self.prompts)

    def distance(self, other: Shape) -> tuple[float, float]:
        """Return by what factor prompts, and by what factor answers, differ typically; 1 where they do not.

        The factor is e to the earth mover's distance between the logarithms of the lengths (Kantorovich 1942;
        in one dimension the area between the two cumulative distributions): twice as long answers are at a
        distance of 2, however widely they spread.
        """
        return _factor(self.prompts, other.prompts), _factor(self.outputs, other.outputs)

    def mix_distance(self, other: Shape) -> float:
        """Return by what factor the typical prompt over the typical answer differs; 1 where it does not."""
        own, others = self._prompts_over_outputs, other._prompts_over_outputs
        return 1.0 if own is None or others is None else max(own / others, others / own)

    @property
    def _prompts_over_outputs(self) -> float | None:
        prompt_tokens, output_tokens = self.prompt_tokens, self.output_tokens
        return prompt_tokens / output_tokens if prompt_tokens and output_tokens else None


def cell_of(tokens: int) -> int:
    """Return the cell of a length."""
    return min(CELLS - 1, int(math.log2(max(1, tokens)) * _CELLS_PER_DOUBLING))


def counts_of(tokens: NDArray[np.int64]) -> Counts:
    """Count many lengths by their cell."""
    cells = (np.log2(np.maximum(tokens, 1)) * _CELLS_PER_DOUBLING).astype(np.intp)
    return np.bincount(np.minimum(cells, CELLS - 1), minlength=CELLS).astype(np.float32)


def spread_over_cells(lengths: LengthCounts) -> Counts:
    """Spread a histogram's new observations over the cells, evenly on a logarithmic scale in each bucket."""
    return np.asarray(lengths.summed() @ _shares(lengths.bounds), np.float32)


@lru_cache(maxsize=64)
def _shares(bounds: tuple[float, ...]) -> NDArray[np.float64]:
    """Return a row for each bucket: which share of it goes to each cell."""
    edges = [0.0]
    lower = 1.0
    for bound in bounds:
        upper = max(1.0, bound) if math.isfinite(bound) else _BEYOND_LAST_BOUND * lower
        edges.append(math.log2(upper) * _CELLS_PER_DOUBLING)
        lower = upper
    cells = np.arange(CELLS + 1)
    reached = [
        np.interp(cells, (low, high), (0, 1)) if high > low else (cells > low).astype(float)
        for low, high in pairwise(edges)
    ]
    return np.diff(np.array(reached))


def _typical_tokens(counts: Counts) -> float | None:
    total = counts.sum()
    if not total:
        return None
    return float(2 ** ((counts @ (np.arange(CELLS) + 0.5) / total) / _CELLS_PER_DOUBLING))


def _factor(first: Counts, second: Counts) -> float:
    if not first.sum() or not second.sum():
        return 1.0
    apart = np.abs(np.cumsum(first) / first.sum() - np.cumsum(second) / second.sum()).sum()
    return float(2 ** (apart / _CELLS_PER_DOUBLING))


def _sparse(counts: Counts) -> list[list[float]]:
    return [[int(cell), float(counts[cell])] for cell in np.flatnonzero(counts)]


def _dense(cells: Iterable[tuple[int, float]]) -> Counts:
    counts = np.zeros(CELLS, np.float32)
    for cell, count in cells:
        counts[int(cell)] = count
    return counts
