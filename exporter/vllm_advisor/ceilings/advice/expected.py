"""What a change of flag is expected to bring, from what was measured, as one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.words import a_day, milliseconds, percent, sequences, tokens
from vllm_advisor.ceilings.latency import CurvePoint

__all__ = ["Operating", "change_of_cap", "change_of_length", "operating_at"]

_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True)
class Operating:
    """How an engine does at a concurrency: time per output token, and throughput where it is known."""

    tpot_seconds: float
    output_tokens_per_second: float | None


def operating_at(curve: Sequence[CurvePoint], concurrency: float) -> Operating | None:
    """Read the curve at a concurrency, linear between its points; None beyond them."""
    points = sorted(curve, key=lambda point: point.concurrency)
    if len(points) == 1 and points[0].concurrency == concurrency:
        return Operating(points[0].tpot_seconds, points[0].output_tokens_per_second)
    for low, high in pairwise(points):
        if low.concurrency <= concurrency <= high.concurrency:
            part = (concurrency - low.concurrency) / ((high.concurrency - low.concurrency) or 1.0)
            tpot_seconds = low.tpot_seconds + part * (high.tpot_seconds - low.tpot_seconds)
            if low.output_tokens_per_second is None or high.output_tokens_per_second is None:
                return Operating(tpot_seconds, None)
            gained = high.output_tokens_per_second - low.output_tokens_per_second
            return Operating(tpot_seconds, low.output_tokens_per_second + part * gained)
    return None


def change_of_cap(case: Case, before: int, after: int) -> str:
    """Say what time per output token, throughput and waiting would become."""
    curve = case.latency.curve
    busiest = min(before, max((int(point.concurrency) for point in curve), default=before))
    now, then = operating_at(curve, busiest), operating_at(curve, after)
    waiting = "fewer requests waiting" if after > before else "more requests waiting at peaks"
    if then is None:
        return f"Expect {waiting}; how time per output token moves was not observed there yet."
    tpot = f"{case.latency.statistic} time per output token of {milliseconds(then.tpot_seconds)}"
    rate = _rate(then)
    if now is not None and busiest != after:
        tpot += f" instead of {milliseconds(now.tpot_seconds)} at {sequences(busiest)}"
        rate += f" instead of {_rate(now)}" if rate and _rate(now) else ""
    words = ", ".join([tpot, *([f"{rate} output tokens/s an engine"] if rate else [])])
    return f"Expect {words} and {waiting}."


def _rate(operating: Operating) -> str:
    rate = operating.output_tokens_per_second
    return "" if rate is None else tokens(rate)


def change_of_length(case: Case, before: int, after: int) -> str:
    """Say how many full-length sequences memory would hold, and how many requests would be over the limit."""
    words = []
    sequences, pool_tokens = case.memory.sequences, case.memory.engine_tokens or case.memory.predicted_tokens
    if sequences is not None and pool_tokens and abs(pool_tokens // after - sequences) <= 1:
        words.append(f"memory for {sequences} full-length sequences instead of {pool_tokens // before}")
    over = case.context.over_recommended_ratio
    if over is not None:
        words.append(f"{percent(over)} of requests over it{_per_day(case, over)}")
    return f"Expect {' and '.join(words)}." if words else "What it brings was not observed yet."


def _per_day(case: Case, ratio: float) -> str:
    context = case.snapshot.context
    if not ratio or not context.window_seconds:
        return ""
    return f", {a_day(ratio * context.requests * _DAY_SECONDS / context.window_seconds)}"
