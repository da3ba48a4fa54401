"""What stretches showed, by concurrency."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.intervals import runs, totals
from vllm_advisor.evidence.latency.histogram import LogHistogram
from vllm_advisor.evidence.latency.stretch import Stretches
from vllm_advisor.sources.engine_series import Floats

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
        "pool_share",
        "pool_share_square",
        "pool_share_tpot",
        "prefill",
        "prefill_pool_share",
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
        "pool_share",
        "pool_share_square",
        "pool_share_tpot",
        "prefill_pool_share",
    )

    def __init__(self) -> None:
        self.stretches = self.tokens = self.concurrency = self.decode_seconds = self.seconds = 0.0
        self.generation_tokens = self.inverse_tokens = 0.0
        self.prefill = self.prefill_square = self.prefill_tpot = 0.0
        self.pool_share = self.pool_share_square = self.pool_share_tpot = self.prefill_pool_share = 0.0
        self.tpot = LogHistogram()

    @property
    def mean_concurrency(self) -> float:
        """Concurrency as the tokens saw it, 0 where nothing is held."""
        return self.concurrency / self.tokens if self.tokens else 0.0

    def add(self, sums: Floats, tpot_seconds: Floats) -> None:
        """Count stretches, given what each adds to the sums."""
        held = [getattr(self, name) for name in Bin.SUMS]
        for name, total in zip(Bin.SUMS, totals(np.vstack([held, sums])), strict=True):
            setattr(self, name, total)
        self.tpot.add(tpot_seconds, sums[:, Bin.SUMS.index("tokens")])

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

    def add(self, stretches: Stretches) -> None:
        """Count stretches."""
        told = stretches.rows((stretches.newest_decode_tokens > 0) & (stretches.tpot_seconds > 0))
        indexes = _indexes(told.concurrency)
        order = np.argsort(indexes, kind="stable")
        indexes, sums, tpot_seconds = indexes[order], _sums(told)[order], told.tpot_seconds[order]
        for start, end in runs(indexes):
            found = self._bins.setdefault(int(indexes[start]), Bin())
            found.add(sums[start:end], tpot_seconds[start:end])

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
            for index, held in sorted(self._bins.items())
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


def _sums(stretches: Stretches) -> Floats:
    """Return a row for each stretch, as `Bin.SUMS`, weighted by the tokens of its newest piece."""
    tokens, tpot = stretches.newest_decode_tokens, stretches.tpot_seconds
    prefill, pool_share = stretches.prefill_rate * tokens, stretches.pool_share * tokens
    columns = {
        "stretches": 1.0 / stretches.pieces,
        "tokens": tokens,
        "concurrency": stretches.concurrency * tokens,
        "decode_seconds": tpot * tokens,
        "seconds": stretches.newest_seconds,
        "generation_tokens": stretches.newest_generation_tokens,
        "inverse_tokens": tokens / stretches.sequence_tokens,
        "prefill": prefill,
        "prefill_square": prefill * stretches.prefill_rate,
        "prefill_tpot": prefill * tpot,
        "pool_share": pool_share,
        "pool_share_square": pool_share * stretches.pool_share,
        "pool_share_tpot": pool_share * tpot,
        "prefill_pool_share": prefill * stretches.pool_share,
    }
    return np.stack([columns[name] for name in Bin.SUMS], axis=1)


def _indexes(concurrency: Floats) -> NDArray[np.intp]:
    even = concurrency * _BINS_PER_SEQUENCE
    beyond = np.log(np.maximum(concurrency / _EVEN_BINS_TO, 1.0)) / _BIN_RATIO_LOG
    last = _EVEN_BINS_TO * _BINS_PER_SEQUENCE
    return np.round(np.where(concurrency < _EVEN_BINS_TO, even, last + beyond)).astype(np.intp)
