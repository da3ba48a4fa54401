"""What the latency ceiling answers with: a monotone curve and where it crosses the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from vllm_advisor.ceilings.grade import Grade

__all__ = ["CurvePoint", "CurveSource", "LatencyCeiling", "crossing", "fit_nondecreasing"]


class CurveSource(StrEnum):
    """Where a point of the curve was measured."""

    TRAFFIC = "traffic"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the fitted curve.

    Args:
        concurrency: running sequences.
        tpot_seconds: time per output token at the target's statistic, after the monotone fit.
        output_tokens_per_second: throughput of the whole engine there, None where unknown.
        weight: what the point rests on: decoded tokens from traffic, requests from a sweep.
        error_ratio: standard error of ``tpot_seconds``, relative to it; None where unknown.
    """

    concurrency: float
    tpot_seconds: float
    output_tokens_per_second: float | None
    weight: float
    source: CurveSource
    error_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class LatencyCeiling:
    """The latency ceiling and the evidence it rests on.

    Args:
        sequences: largest max-num-seqs that meets the target, None where the evidence does not say.
        low: the interval's lower end: the target was met there. None where it was met nowhere.
        high: the interval's upper end. None where the target was met everywhere ("not reached").
        observed_to: the highest concurrency with evidence.
        statistic: ``mean``, ``p50``, ``p99``.
    """

    sequences: int | None
    grade: Grade
    low: int | None
    high: int | None
    slo_tpot_seconds: float
    statistic: str
    observed_to: int | None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def least_loaded(self) -> CurvePoint | None:
        """The point with the fewest sequences; where the target was met nowhere, the fewest held for long.

        ``high`` is then what was run for a whole stretch, and a point below it rests on a part of one.
        """
        at_least = self.high if self.low is None and self.high is not None else 0
        held = (point for point in self.curve if point.concurrency >= at_least)
        return min(held, key=lambda point: point.concurrency, default=None)


def fit_nondecreasing(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the nondecreasing sequence nearest to the values in weighted least squares.

    Pool adjacent violators (Ayer et al. 1955), here rather than from scipy, whose import alone would cost the
    daemon some 80 MB; the tests compare the two.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, mass, length = value, weight, 1
        while blocks and blocks[-1][0] >= mean:
            before, before_mass, before_length = blocks.pop()
            mean = (before * before_mass + mean * mass) / (before_mass + mass)
            mass, length = mass + before_mass, length + before_length
        blocks.append((mean, mass, length))
    return [mean for mean, _, length in blocks for _ in range(length)]


def crossing(concurrency: Sequence[float], tpot_seconds: Sequence[float], slo_seconds: float) -> float | None:
    """Return where a nondecreasing, piecewise linear curve leaves the target; None when it never does.

    Raises:
        ValueError: the curve starts above the target.
    """
    if tpot_seconds[0] > slo_seconds:
        raise ValueError("the curve starts above the target")
    for index in range(1, len(concurrency)):
        if tpot_seconds[index] > slo_seconds:
            rise = tpot_seconds[index] - tpot_seconds[index - 1]
            part = (slo_seconds - tpot_seconds[index - 1]) / rise
            return concurrency[index - 1] + part * (concurrency[index] - concurrency[index - 1])
    return None
