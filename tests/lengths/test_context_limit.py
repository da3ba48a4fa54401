"""--max-model-len from the lengths seen: the worked example, grades, censoring and the trade-off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from support.lengths import histogram_of, interval_with, request
from vllm_advisor.ceilings.context_limit import (
    ContextLimit,
    context_limit,
    limit_from_quantile,
    requests_needed,
)
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.config import ContextConfig
from vllm_advisor.evidence.lengths import ContextLengths
from vllm_advisor.sources.access_logs import LoggedRequest, Outcome

NOW_SECONDS = 1_796_000_000.0
DAY_SECONDS = 86_400.0


def limit_of(
    lengths: ContextLengths,
    *,
    configured: int | None = None,
    model: int | None = None,
    **settings: float,
) -> ContextLimit:
    """Work the limit out at the end of a day."""
    snapshot = lengths.snapshot(NOW_SECONDS + DAY_SECONDS, limit_tokens=configured)
    config = ContextConfig.model_validate(settings)
    return context_limit(snapshot, config, configured_max_model_len=configured, model_max_len=model)


def day_of(totals: list[int]) -> ContextLengths:
    """Return requests of some lengths, spread evenly over a day."""
    lengths = ContextLengths(7 * DAY_SECONDS)
    for seconds, total in zip(np.linspace(0, DAY_SECONDS, len(totals)), totals, strict=True):
        lengths.observe(request(total, NOW_SECONDS + float(seconds)))
    return lengths


def test_the_worked_example() -> None:
    """9,500 tokens at p999, 25% on top, up to a multiple of 1,024: 12,288."""
    assert limit_from_quantile(9500, margin_ratio=0.25, round_up_to_tokens=1024) == 12_288
    percentiles = [1400] * 50_000 + [3800] * 40_000 + [6200] * 9_000 + [9500] * 1_000
    limit = limit_of(day_of(percentiles[::10]), configured=1_048_576)
    assert (limit.max_model_len, limit.grade) == (12_288, Grade.MEASURED)
    assert limit.p999 == pytest.approx(9500, rel=0.005)
    assert limit.over_configured_ratio == 0.0
    assert not limit.censored


@given(st.floats(1, 1e6), st.floats(0, 2), st.integers(1, 4096))
def test_a_limit_covers_its_quantile(tokens: float, margin: float, step: int) -> None:
    """The limit is the least multiple that the length with its margin fits in."""
    limit = limit_from_quantile(tokens, margin_ratio=margin, round_up_to_tokens=step)
    wanted = tokens * (1 + margin)
    assert limit % step == 0
    assert wanted - 1e-3 <= limit < wanted + step + 1


def test_exact_products_are_not_rounded_up_twice() -> None:
    """10,240 x 1.1 is 11,264 exactly, which floating point has a little above."""
    assert limit_from_quantile(10_240, margin_ratio=0.1, round_up_to_tokens=1024) == 11_264


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.99, 0.999])
def test_the_requests_needed_are_those_of_a_confidence_bound(quantile: float) -> None:
    """The longest of so many is below the quantile with at most 5% probability, of one fewer with more."""
    needed = requests_needed(quantile)
    assert binom.pmf(needed, needed, quantile) <= 0.05 < binom.pmf(needed - 1, needed - 1, quantile)
    assert requests_needed(0.999) == 2995


@pytest.mark.parametrize(
    ("requests", "grade", "given"),
    [(28, Grade.NONE, False), (29, Grade.EXTRAPOLATED, True), (2994, Grade.EXTRAPOLATED, True),
     (2995, Grade.MEASURED, True)],
)  # fmt: skip
def test_thin_evidence_is_graded_so(requests: int, grade: Grade, given: bool) -> None:  # noqa: FBT001
    """Fewer requests than the quantile needs measure nothing, and too few give no number."""
    limit = limit_of(day_of([1000] * requests))
    assert limit.grade is grade
    assert (limit.max_model_len is not None) is given
    assert (limit.reason is None) is (grade is Grade.MEASURED)


def test_no_requests_give_no_numbers() -> None:
    """Without evidence every number is None."""
    limit = limit_of(ContextLengths(DAY_SECONDS), configured=8192)
    assert (limit.max_model_len, limit.grade, limit.p50, limit.over_configured_ratio) == (
        None,
        Grade.NONE,
        None,
        None,
    )
    assert limit.tradeoff == ()
    assert limit.reason == "0 requests with token counts, of 2995 needed"


def test_the_models_own_maximum_is_not_exceeded() -> None:
    """No margin makes a model longer than it is."""
    assert limit_of(day_of([30_000] * 3000), model=32_768).max_model_len == 32_768


def test_refusals_that_outnumber_the_quantile_make_it_a_lower_bound() -> None:
    """Then the lengths seen are cut off, the limit is not lowered, and it is said."""
    for refused, censored in ((2, False), (4, True)):
        lengths = day_of([1000] * 3000)
        for _ in range(refused):
            lengths.observe(LoggedRequest(Outcome.REJECTED_FOR_LENGTH, NOW_SECONDS))
        limit = limit_of(lengths, configured=8192)
        assert limit.censored is censored
        assert limit.grade is (Grade.EXTRAPOLATED if censored else Grade.MEASURED)
        assert limit.max_model_len == (8192 if censored else 2048)
        assert limit.over_configured_ratio == pytest.approx(refused / (3000 + refused))


def test_answers_cut_at_the_limit_count_like_refusals() -> None:
    """finish_reason length at the limit is demand beyond it; below the limit it is max_tokens."""
    lengths = day_of([1000] * 3000)
    for _ in range(40):
        lengths.observe(request(8192, NOW_SECONDS, cut_by_length=True))
        lengths.observe(request(500, NOW_SECONDS, cut_by_length=True))
    limit = limit_of(lengths, configured=8192)
    assert (limit.cut_at_limit, limit.censored) == (40, True)
    assert limit.over_configured_ratio == pytest.approx(40 / 3080)


def test_what_is_asked_for_is_held_against_both_limits() -> None:
    """A limit that fits the lengths can still refuse what max_tokens asks for."""
    lengths = ContextLengths(7 * DAY_SECONDS)
    for step in range(3000):
        asked = 16_000 if step % 10 == 0 else 500
        lengths.observe(request(1000, NOW_SECONDS, max_tokens=asked))
    limit = limit_of(lengths, configured=32_768)
    assert limit.max_model_len == 2048
    assert limit.requested_over_configured_ratio == 0.0
    assert limit.requested_over_recommended_ratio == pytest.approx(0.1)


def test_a_limit_below_yesterdays_longest_is_said() -> None:
    """One request beyond the quantile does not move the limit, and is not hidden."""
    limit = limit_of(day_of([1000] * 5000 + [30_000]))
    assert limit.max_model_len == 2048
    assert limit.below_longest_last_day


def test_the_trade_off_has_a_row_for_each_percentile_the_evidence_supports() -> None:
    """Each row counts the requests over its limit, also by day, from the raw lengths."""
    totals = list(range(100, 40_100, 10))
    limit = limit_of(day_of(totals), quantile=0.98)
    assert [row.quantile for row in limit.tradeoff] == [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]
    for row in limit.tradeoff:
        expected = int(np.sum(np.array(totals) > row.max_model_len))
        assert row.requests_over == pytest.approx(expected, abs=25)
        assert row.requests_over_per_day == pytest.approx(row.requests_over, rel=0.01)
    lower, higher = limit.tradeoff[0], limit.tradeoff[-1]
    assert lower.max_model_len < higher.max_model_len


def test_histograms_alone_are_never_measured() -> None:
    """They are interpolated where the limit bounds the sum, and extrapolated where nothing does."""
    prompt, output = histogram_of(np.full(4000, 7000), 8192), histogram_of(np.full(4000, 400), 8192)
    for configured, grade in ((8192, Grade.INTERPOLATED), (None, Grade.EXTRAPOLATED)):
        lengths = ContextLengths(7 * DAY_SECONDS)
        lengths.observe_histograms(interval_with(prompt, output, NOW_SECONDS, NOW_SECONDS + 10))
        limit = limit_of(lengths, configured=configured)
        assert limit.grade is grade
        assert limit.quantile_bounds_tokens is not None
        assert limit.quantile_bounds_tokens[1] == configured
        assert limit.reason
