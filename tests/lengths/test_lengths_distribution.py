"""Log-linear counts give the quantiles of the raw lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.evidence.lengths_distribution import (
    BUCKETS,
    LONGEST_TOKENS,
    VALUES_TOKENS,
    LengthDistribution,
    buckets_of,
)

LENGTHS = st.lists(st.integers(1, LONGEST_TOKENS), min_size=1, max_size=200)


def distribution_of(lengths: list[int]) -> LengthDistribution:
    """Count raw lengths."""
    return LengthDistribution(np.bincount(buckets_of(np.array(lengths)), minlength=BUCKETS))


@given(LENGTHS, st.floats(0, 1))
def test_any_quantile_is_within_half_a_percent(lengths: list[int], quantile: float) -> None:
    """The interpolated quantile is numpy's on the raw lengths, to 0.5%."""
    found = distribution_of(lengths).quantile_tokens(quantile)
    expected = float(np.quantile(lengths, quantile))
    assert found is not None
    assert abs(found - expected) <= 0.005 * expected


@given(st.lists(st.integers(0, 255), min_size=1, max_size=100), st.floats(0, 1))
def test_short_lengths_are_exact(lengths: list[int], quantile: float) -> None:
    """Below 256 tokens nothing is lost."""
    found = distribution_of(lengths).quantile_tokens(quantile)
    np.testing.assert_allclose(found, np.quantile(lengths, quantile), rtol=1e-12)


@given(st.integers(0, LONGEST_TOKENS))
def test_a_bucket_stands_for_what_it_holds(tokens: int) -> None:
    """A length and the value of its bucket differ by less than 0.4%."""
    (bucket,) = buckets_of(np.array([tokens]))
    assert abs(VALUES_TOKENS[bucket] - tokens) <= 0.004 * tokens


def test_buckets_follow_one_another() -> None:
    """Longer lengths are in later buckets, and every bucket is used."""
    values = np.floor(VALUES_TOKENS).astype(np.int64)
    assert (buckets_of(values) == np.arange(BUCKETS)).all()
    assert buckets_of(np.array([LONGEST_TOKENS, LONGEST_TOKENS + 1])).tolist() == [BUCKETS - 1] * 2


@given(LENGTHS, st.integers(1, LONGEST_TOKENS))
def test_the_share_over_a_limit_is_that_of_the_raw_lengths(lengths: list[int], limit: int) -> None:
    """Only lengths within a bucket's width of the limit may be on the wrong side of it."""
    share = distribution_of(lengths).over_ratio(limit)
    raw = np.array(lengths)
    assert share is not None
    assert np.mean(raw > limit * 1.005) <= share <= np.mean(raw > limit * 0.995)


def test_empty() -> None:
    """Without requests there is neither quantile nor share."""
    nothing = LengthDistribution(np.zeros(BUCKETS, np.int64))
    assert nothing.requests == 0
    assert (nothing.quantile_tokens(0.5), nothing.over_ratio(1)) == (None, None)
