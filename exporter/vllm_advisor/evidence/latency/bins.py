"""What stretches showed, by concurrency."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from vllm_advisor.evidence.latency.histogram import LogHistogram
from vllm_advisor.evidence.latency.stretch import Stretch

__all__ = ["Bin", "ConcurrencyBins"]

_EVEN_BINS_TO = 12.5
_BINS_PER_SEQUENCE = 2
_BIN_RATIO_LOG = math.log(1.04)
_LEAST_STRETCHES = 0.05
"""A bin that aged below this part of one stretch is dropped."""
_SUPPORTED_STRETCHES = 1 / 3
"""A bin of fewer stretches says nothing by itself."""
_NEAR_RATIO = 1.1


class Bin:
    """Stretches of about one concurrency: sums over what is their own, and how their TPOT spreads."""

    __slots__ = (
        "concurrency",
        "decode_seconds",
        "generation_tokens",
        "inverse_tokens",
        "prefill",
        "prefill_square",
        "prefill_tpot",
        "seconds",
        "stretches",
        "tokens",
        "tpot",
    )
    SUMS = (
        "stretches",
        "tokens",
        "concurrency",
        "decode_seconds",
        "seconds",
        "generation_tokens",
        "inverse_tokens",
        "prefill",
        "prefill_square",
        "prefill_tpot",
    )

    def __init__(self) -> None:
        self.stretches = self.tokens = self.concurrency = self.decode_seconds = self.seconds = 0.0
        self.generation_tokens = self.inverse_tokens = 0.0
        self.prefill = self.prefill_square = self.prefill_tpot = 0.0
        self.tpot = LogHistogram()

    @property
    def mean_concurrency(self) -> float:
        """Concurrency as the tokens saw it, 0 where nothing is held."""
        return self.concurrency / self.tokens if self.tokens else 0.0

    def add(self, stretch: Stretch) -> None:
        """Count one stretch, weighted by the tokens of its newest piece."""
        tokens = stretch.newest_decode_tokens
        tpot = stretch.tpot_seconds
        prefill = stretch.prefill_ratio * tokens
        self.stretches += 1.0 / stretch.pieces
        self.tokens += tokens
        self.concurrency += stretch.concurrency * tokens
        self.decode_seconds += tpot * tokens
        self.seconds += stretch.newest_seconds
        self.generation_tokens += stretch.newest_generation_tokens
        self.inverse_tokens += tokens / stretch.sequence_tokens
        self.prefill += prefill
        self.prefill_square += prefill * stretch.prefill_ratio
        self.prefill_tpot += prefill * tpot
        self.tpot.add(tpot, tokens)

    def merge(self, other: Bin) -> None:
        """Add what another bin holds."""
        for name in Bin.SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.tpot.merge(other.tpot)

    def scale(self, factor: float) -> None:
        """Multiply all that is held."""
        for name in Bin.SUMS:
            setattr(self, name, getattr(self, name) * factor)
        self.tpot.scale(factor)


class ConcurrencyBins:
    """Bins half a sequence apart up to 12.5, and 4% above; some 170 of them up to 4,096 sequences."""

    __slots__ = ("_bins",)

    def __init__(self) -> None:
        self._bins: dict[int, Bin] = {}

    def add(self, stretch: Stretch) -> None:
        """Count one stretch."""
        if stretch.newest_decode_tokens <= 0 or stretch.tpot_seconds <= 0:
            return
        index = _index(stretch.concurrency)
        found = self._bins.get(index)
        if found is None:
            found = self._bins[index] = Bin()
        found.add(stretch)

    def ascending(self) -> Iterator[Bin]:
        """Yield the bins by concurrency."""
        return (self._bins[index] for index in sorted(self._bins))

    def supported(self) -> Iterator[Bin]:
        """Yield bins that stand for something, by concurrency; thin ones join their near neighbour above."""
        joined = Bin()
        for held in self.ascending():
            if joined.stretches >= _SUPPORTED_STRETCHES:
                yield joined
                joined = Bin()
            elif held.mean_concurrency > _NEAR_RATIO * joined.mean_concurrency:
                joined = Bin()
            joined.merge(held)
        if joined.stretches >= _SUPPORTED_STRETCHES:
            yield joined

    def merge(self, other: ConcurrencyBins) -> None:
        """Add what another engine's bins hold."""
        for index, held in other._bins.items():
            self._bins.setdefault(index, Bin()).merge(held)

    def age(self, factor: float) -> None:
        """Weaken all that is held, and drop bins that faded."""
        for held in self._bins.values():
            held.scale(factor)
        self._bins = {index: held for index, held in self._bins.items() if held.stretches > _LEAST_STRETCHES}

    def state(self) -> list[Any]:
        """Return the content as plain JSON values."""
        return [
            [index, [getattr(held, name) for name in Bin.SUMS], held.tpot.state()]
            for index, held in self._bins.items()
        ]

    @classmethod
    def from_state(cls, state: list[Any]) -> ConcurrencyBins:
        """Rebuild what `state` gave."""
        bins = cls()
        for index, sums, (first, counts) in state:
            held = bins._bins[int(index)] = Bin()
            for name, value in zip(Bin.SUMS, sums, strict=True):
                setattr(held, name, float(value))
            held.tpot = LogHistogram(int(first), counts)
        return bins


def _index(concurrency: float) -> int:
    if concurrency < _EVEN_BINS_TO:
        return round(concurrency * _BINS_PER_SEQUENCE)
    beyond = math.log(concurrency / _EVEN_BINS_TO) / _BIN_RATIO_LOG
    return round(_EVEN_BINS_TO * _BINS_PER_SEQUENCE + beyond)
