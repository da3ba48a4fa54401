"""The --max-model-len that the observed context lengths support."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.config import ContextConfig
from vllm_advisor.evidence.lengths import ContextSnapshot, LengthSource

__all__ = [
    "ContextLimit",
    "TradeoffRow",
    "context_limit",
    "limit_from_quantile",
    "requests_needed",
]

_TRADEOFF_QUANTILES = (0.9, 0.95, 0.99, 0.995, 0.999, 0.9999)
_CONFIDENCE = 0.95
_FEWEST_REQUESTS = 29
"""`requests_needed(0.9)`: with fewer not even the ninetieth percentile is known."""
_SECONDS_A_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class TradeoffRow:
    """What choosing one percentile means.

    Args:
        quantile: the percentile chosen.
        max_model_len: tokens it gives, margin and rounding included.
        requests_over: observed requests longer than that.
        requests_over_per_day: the same in a day, None where the time covered is unknown.
    """

    quantile: float
    max_model_len: int
    requests_over: int
    requests_over_per_day: float | None


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """The context limit, what it rests on and what it would cost; None where the evidence does not say.

    Args:
        max_model_len: tokens recommended.
        grade: what the recommendation rests on.
        reason: why there is no recommendation, or why it is no better.
        p50: median of prompt plus output tokens; ``p90`` to ``p999`` likewise.
        quantile_tokens: the length at the configured quantile, before margin and rounding.
        quantile_bounds_tokens: between what the engine's histograms pin that length, for evidence from them;
            None as the upper one where they have none.
        over_configured_ratio: share of the demand that today's limit refuses or cuts.
        over_recommended_ratio: share of the observed requests longer than the recommendation.
        requested_over_configured_ratio: share of requests that ask for more, prompt plus ``max_tokens``, than
            today's limit.
        requested_over_recommended_ratio: the same for the recommendation.
        rejected_for_length: requests refused for their length.
        cut_at_limit: answers that ended at today's limit.
        censored: refusals and cuts outnumber 1 - quantile, so that today's limit is only a lower bound.
        below_longest_last_day: the recommendation is below the longest request of the last day.
        tradeoff: a row for each percentile that the evidence supports.
    """

    max_model_len: int | None
    grade: Grade
    reason: str | None
    p50: float | None
    p90: float | None
    p99: float | None
    p999: float | None
    quantile_tokens: float | None
    quantile_bounds_tokens: tuple[int, int | None] | None
    over_configured_ratio: float | None
    over_recommended_ratio: float | None
    requested_over_configured_ratio: float | None
    requested_over_recommended_ratio: float | None
    rejected_for_length: int
    cut_at_limit: int
    censored: bool
    below_longest_last_day: bool
    tradeoff: tuple[TradeoffRow, ...]


def limit_from_quantile(tokens: float, *, margin_ratio: float, round_up_to_tokens: int) -> int:
    """Return a length with its margin, up to the next multiple (design page: 9,500 x 1.25 gives 12,288)."""
    with_margin = math.ceil(round(tokens * (1 + margin_ratio), 6))
    return -(-with_margin // round_up_to_tokens) * round_up_to_tokens


def requests_needed(quantile: float) -> int:
    """Return how many requests it takes for the longest to be a 95% upper bound of the quantile.

    All of ``n`` requests lie below the quantile ``q`` with probability ``q**n`` (Wilks 1941).
    """
    return math.ceil(math.log(1 - _CONFIDENCE) / math.log(quantile))


def context_limit(
    snapshot: ContextSnapshot,
    config: ContextConfig,
    *,
    configured_max_model_len: int | None,
    model_max_len: int | None,
) -> ContextLimit:
    """Work out --max-model-len from the lengths seen.

    Args:
        snapshot: the lengths and refusals of the window.
        config: quantile, margin and rounding.
        configured_max_model_len: today's limit, where known.
        model_max_len: the most the model itself supports, which the recommendation never exceeds.
    """
    total, quantile = snapshot.total, config.quantile
    tokens = total.quantile_tokens(quantile)
    cut = _cut_at_limit(snapshot, configured_max_model_len)
    lost = snapshot.rejected_for_length + cut
    demand = snapshot.requests + snapshot.rejected_for_length
    censored = lost > (1 - quantile) * demand
    recommended = None
    if tokens is not None and snapshot.requests >= min(_FEWEST_REQUESTS, requests_needed(quantile)):
        recommended = _limit(tokens, config, model_max_len)
        if censored and configured_max_model_len is not None:
            recommended = max(recommended, configured_max_model_len)
    bounds = snapshot.bounds.quantile_tokens(quantile) if snapshot.bounds else None
    grade, reason = _grade(snapshot, config, recommended, bounds, censored=censored)
    return ContextLimit(
        max_model_len=recommended,
        grade=grade,
        reason=reason,
        p50=total.quantile_tokens(0.5),
        p90=total.quantile_tokens(0.9),
        p99=total.quantile_tokens(0.99),
        p999=total.quantile_tokens(0.999),
        quantile_tokens=tokens,
        quantile_bounds_tokens=bounds,
        over_configured_ratio=_over_configured(snapshot, configured_max_model_len, lost, demand),
        over_recommended_ratio=None if recommended is None else total.over_ratio(recommended),
        requested_over_configured_ratio=_requested_over(snapshot, configured_max_model_len),
        requested_over_recommended_ratio=_requested_over(snapshot, recommended),
        rejected_for_length=snapshot.rejected_for_length,
        cut_at_limit=cut,
        censored=censored,
        below_longest_last_day=recommended is not None
        and recommended < (snapshot.longest_last_day_tokens or 0),
        tradeoff=_tradeoff(snapshot, config, model_max_len),
    )


def _limit(tokens: float, config: ContextConfig, model_max_len: int | None) -> int:
    limit = limit_from_quantile(
        tokens, margin_ratio=config.margin_ratio, round_up_to_tokens=config.round_up_to_tokens
    )
    return limit if model_max_len is None else min(limit, model_max_len)


def _cut_at_limit(snapshot: ContextSnapshot, limit_tokens: int | None) -> int:
    """Count answers ended by length whose tokens reach today's limit, within a bucket's width."""
    return 0 if limit_tokens is None else snapshot.cut.over(limit_tokens * 0.995 - 1)


def _over_configured(
    snapshot: ContextSnapshot, limit_tokens: int | None, lost: int, demand: int
) -> float | None:
    if limit_tokens is None or not demand:
        return None
    return max(lost, snapshot.total.over(limit_tokens * 1.005)) / demand


def _requested_over(snapshot: ContextSnapshot, limit_tokens: int | None) -> float | None:
    return None if limit_tokens is None else snapshot.requested.over_ratio(limit_tokens)


def _grade(
    snapshot: ContextSnapshot,
    config: ContextConfig,
    recommended: int | None,
    bounds: tuple[int, int | None] | None,
    *,
    censored: bool,
) -> tuple[Grade, str | None]:
    needed = requests_needed(config.quantile)
    if recommended is None:
        return Grade.NONE, f"{snapshot.requests} requests with token counts, of {needed} needed"
    if censored:
        return Grade.EXTRAPOLATED, "lengths are cut off by today's limit, which is a lower bound"
    if snapshot.requests < needed:
        return Grade.EXTRAPOLATED, f"{snapshot.requests} requests with token counts, of {needed} needed"
    if snapshot.source is LengthSource.HISTOGRAMS:
        unbounded = bounds is None or bounds[1] is None
        reason = "prompt and output lengths are known apart only, from the engine's histograms"
        return (Grade.EXTRAPOLATED if unbounded else Grade.INTERPOLATED), reason
    return Grade.MEASURED, None


def _tradeoff(
    snapshot: ContextSnapshot, config: ContextConfig, model_max_len: int | None
) -> tuple[TradeoffRow, ...]:
    quantiles = sorted({*_TRADEOFF_QUANTILES, config.quantile})
    supported = [q for q in quantiles if requests_needed(q) <= snapshot.requests]
    return tuple(_row(snapshot, config, quantile, model_max_len) for quantile in supported)


def _row(
    snapshot: ContextSnapshot, config: ContextConfig, quantile: float, model_max_len: int | None
) -> TradeoffRow:
    limit = _limit(snapshot.total.quantile_tokens(quantile) or 0.0, config, model_max_len)
    over = snapshot.total.over(limit)
    days = snapshot.window_seconds / _SECONDS_A_DAY
    return TradeoffRow(quantile, limit, over, over / days if days > 0 else None)
