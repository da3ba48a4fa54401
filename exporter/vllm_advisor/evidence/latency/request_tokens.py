"""How many tokens requests decode, from the engines' own histogram."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vllm_advisor.evidence.interval import Interval

__all__ = ["RequestTokens"]

_UNKNOWN_TOKENS = 100.0


class RequestTokens:
    """Decoded tokens per request (its output less the first token): the mean, and the spread where known."""

    __slots__ = ("_decoded", "_finished", "_requests")

    def __init__(self) -> None:
        self._decoded = self._requests = 0.0
        self._finished: dict[tuple[float, float], float] = {}

    def observe(self, interval: Interval) -> None:
        """Take in an interval's finished requests."""
        self._decoded += interval.decode_tokens
        self._requests += interval.first_tokens
        lengths = interval.generation_lengths
        if lengths is None or not interval.finished:
            return
        lower = 0.0
        for bound, count in zip(lengths.bounds, lengths.counts, strict=True):
            if count:
                bucket = (lower, bound)
                self._finished[bucket] = self._finished.get(bucket, 0.0) + count
            lower = bound

    @property
    def mean(self) -> float:
        """Decoded tokens of the mean request."""
        return max(1.0, self._decoded / self._requests) if self._requests else _UNKNOWN_TOKENS

    def quantiles(self, count: int) -> npt.NDArray[np.float64]:
        """Return decoded tokens at evenly spaced quantiles, log-linear within buckets, of requests that decode."""
        buckets = sorted((low, high, n) for (low, high), n in self._finished.items() if high > 1)
        if not buckets:
            return np.array([self.mean])
        edges = [max(1.0, buckets[0][0])]
        cumulative = [0.0]
        for low, high, weight in buckets:
            edges += [max(1.0, low), high if math.isfinite(high) else 2.5 * low]
            cumulative += [cumulative[-1], cumulative[-1] + weight]
        at = (np.arange(count) + 0.5) / count * cumulative[-1]
        tokens: npt.NDArray[np.float64] = np.exp(np.interp(at, cumulative, np.log(edges))) - 1.0
        return np.maximum(tokens, 1.0)

    def merge(self, other: RequestTokens) -> None:
        """Add what another holds."""
        self._decoded += other._decoded  # noqa: SLF001 - the same class
        self._requests += other._requests  # noqa: SLF001
        for bucket, weight in other._finished.items():  # noqa: SLF001
            self._finished[bucket] = self._finished.get(bucket, 0.0) + weight

    def age(self, factor: float) -> None:
        """Weaken all that is held."""
        self._decoded *= factor
        self._requests *= factor
        self._finished = {bucket: weight * factor for bucket, weight in self._finished.items()}

    def state(self) -> list[Any]:
        """Return the content as plain JSON values (an unbounded bucket's bound as None)."""
        finished = [
            [low, high if math.isfinite(high) else None, weight]
            for (low, high), weight in self._finished.items()
        ]
        return [self._decoded, self._requests, finished]

    @classmethod
    def from_state(cls, state: list[Any]) -> RequestTokens:
        """Rebuild what `state` gave."""
        rebuilt = cls()
        rebuilt._decoded, rebuilt._requests = float(state[0]), float(state[1])
        for low, high, weight in state[2]:
            rebuilt._finished[float(low), math.inf if high is None else float(high)] = float(weight)
        return rebuilt
