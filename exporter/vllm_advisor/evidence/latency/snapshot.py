"""What the latency ceiling is worked out from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vllm_advisor.evidence.latency.bins import Bin
from vllm_advisor.evidence.latency.histogram import LogHistogram

__all__ = ["Floats", "LatencyBins", "LatencySnapshot", "bins_snapshot"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LatencyBins:
    """Stretches by concurrency, one element a bin, ascending.

    Args:
        concurrency: mean running sequences.
        stretches: how many independent stretches a bin rests on.
        tokens: decoded tokens.
        tpot_seconds: mean time per output token.
        seconds: how long engines ran there.
        generation_tokens: what they put out in that time.
        prefill_ratio: prompt tokens per decoded token.
        mix: what TPOT depends on beside concurrency, a row a bin: prompt tokens per second that a sequence
            decodes, and the part of the KV pool that a running sequence held.
        mix_covariance: of the two between a bin's stretches.
        mix_tpot_covariance_seconds: of either with TPOT.
        inverse_tokens: mean of 1 / tokens that one sequence made in a stretch.
        histograms: how TPOT spreads, weighted by tokens.
    """

    concurrency: Floats
    stretches: Floats
    tokens: Floats
    tpot_seconds: Floats
    seconds: Floats
    generation_tokens: Floats
    prefill_ratio: Floats
    mix: Floats
    mix_covariance: Floats
    mix_tpot_covariance_seconds: Floats
    inverse_tokens: Floats
    histograms: tuple[LogHistogram, ...]

    @property
    def output_tokens_per_second(self) -> Floats:
        """Throughput of one engine, in each bin's own seconds."""
        return self.generation_tokens / self.seconds


@dataclass(frozen=True, slots=True)
class LatencySnapshot:
    """A deployment's latency evidence at one moment.

    Args:
        stretches: of one request's length each.
        long_stretches: of four, which tell lasting swings from passing ones.
        request_tokens: decoded tokens of requests, at evenly spaced quantiles.
        prompt_tokens: prompt tokens of requests, likewise; empty where unknown.
        running_peak: the most sequences one engine was seen running at once, None where the gauge is lacking.
        tpot_recent_p99_seconds: p99 over the last five to ten minutes, and so the next three.
        ttft_recent_p99_seconds: the bucket bound it lies under.
    """

    stretches: LatencyBins
    long_stretches: LatencyBins
    request_tokens: Floats
    prompt_tokens: Floats
    running_peak: float | None
    tpot_recent_p99_seconds: float | None
    ttft_recent_p99_seconds: float | None
    queue_recent_mean_seconds: float | None
    prefill_recent_ratio: float | None


def bins_snapshot(bins: Iterable[Bin]) -> LatencyBins:
    """Freeze bins into arrays."""
    held = list(bins)
    sums = np.array([[getattr(one, name) for name in Bin.SUMS] for one in held]).reshape(
        len(held), len(Bin.SUMS)
    )
    column = dict(zip(Bin.SUMS, sums.T, strict=True))
    tokens = column["tokens"]
    mean = {name: total / tokens for name, total in column.items()}
    tpot = mean["decode_seconds"]
    mix = np.stack([mean["prefill"], mean["pool_share"]], axis=-1)
    squares = np.stack(
        [
            mean["prefill_square"],
            mean["prefill_pool_share"],
            mean["prefill_pool_share"],
            mean["pool_share_square"],
        ],
        axis=-1,
    ).reshape(-1, 2, 2)
    products = np.stack([mean["prefill_tpot"], mean["pool_share_tpot"]], axis=-1)
    return LatencyBins(
        concurrency=mean["concurrency"],
        stretches=column["stretches"],
        tokens=tokens,
        tpot_seconds=tpot,
        seconds=column["seconds"],
        generation_tokens=column["generation_tokens"],
        prefill_ratio=mean["prefill_tpot"],
        mix=mix,
        mix_covariance=squares - mix[:, :, None] * mix[:, None, :],
        mix_tpot_covariance_seconds=products - mix * tpot[:, None],
        inverse_tokens=mean["inverse_tokens"],
        histograms=tuple(LogHistogram(one.tpot.first, one.tpot.counts) for one in held),
    )
