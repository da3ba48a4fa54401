"""Bounds from the two histograms hold whatever the dependence between prompt and output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.lengths import QUANTILES, TRACES, histogram_of, interval_with, trace_lengths
from vllm_advisor.evidence.lengths import ContextLengths, ContextSnapshot, LengthSource
from vllm_advisor.sources.access_logs import LoggedRequest, Outcome

NOW_SECONDS = 1_796_000_000.0
LENGTHS = st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 3000)), min_size=1, max_size=60)


def snapshot_of(
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], int]], limit_tokens: int | None = None
) -> ContextSnapshot:
    """Return what histograms say of requests, each part from an engine with its own --max-model-len."""
    lengths = ContextLengths(86400.0)
    for step, (prompt, output, max_model_len) in enumerate(parts):
        interval = interval_with(
            histogram_of(prompt, max_model_len),
            histogram_of(output, max_model_len),
            NOW_SECONDS + 10 * step,
            NOW_SECONDS + 10 * step + 10,
        )
        lengths.observe_histograms(interval)
    return lengths.snapshot(NOW_SECONDS + 1000, limit_tokens=limit_tokens)


@pytest.mark.parametrize(("name", "max_model_len"), list(zip(TRACES, (16384, 131072), strict=True)))
@pytest.mark.parametrize("limit_known", [False, True], ids=["limit unknown", "limit known"])
def test_the_truth_of_both_traces_lies_within(
    test_data: Path,
    name: str,
    max_model_len: int,
    limit_known: bool,  # noqa: FBT001
) -> None:
    """From p50 to p999 numpy's quantile on the raw rows is within the bounds."""
    prompt, output = trace_lengths(test_data, name)
    snapshot = snapshot_of([(prompt, output, max_model_len)], max_model_len if limit_known else None)
    assert snapshot.source is LengthSource.HISTOGRAMS
    assert snapshot.requests == prompt.size
    assert snapshot.bounds is not None
    for quantile in QUANTILES:
        low, high = snapshot.bounds.quantile_tokens(quantile)
        truth = np.quantile(prompt + output, quantile)
        assert low <= truth
        assert high is None or truth <= high
        assert not limit_known or high is not None
        estimate = snapshot.total.quantile_tokens(quantile)
        assert estimate == pytest.approx(truth, rel=0.5)


@given(LENGTHS, st.floats(0, 1), st.sampled_from(["as is", "comonotone", "countermonotone", "shuffled"]))
@settings(max_examples=300)
def test_any_dependence_lies_within(lengths: list[tuple[int, int]], quantile: float, dependence: str) -> None:
    """Pairing the same prompts and outputs in any way never leaves the bounds."""
    prompt, output = np.array(lengths).T
    if dependence != "as is":
        prompt, output = np.sort(prompt), np.sort(output)
    if dependence == "countermonotone":
        output = output[::-1]
    if dependence == "shuffled":
        output = np.random.default_rng(len(lengths)).permutation(output)
    bounds = snapshot_of([(prompt, output, 16384)], 12_000).bounds
    assert bounds is not None
    low, high = bounds.quantile_tokens(quantile)
    truth = np.quantile(prompt + output, quantile)
    assert low <= truth + 1e-6
    assert high is not None
    assert truth <= high + 1e-6


def test_the_bounds_are_as_narrow_as_the_marginals_allow() -> None:
    """Some lengths in these buckets, paired in some way, reach each bound (Makarov 1981).

    Half of each is at most 1 and half is 2. Paired alike the sums are 0 and 4, paired crosswise 2 or 3.
    """
    prompt = output = np.array([1, 2] * 50)
    bounds = snapshot_of([(prompt, output, 10)]).bounds
    assert bounds is not None
    assert bounds.quantile_tokens(0.25) == (0, 3)
    assert bounds.quantile_tokens(0.75) == (2, 4)


@given(LENGTHS, LENGTHS, st.floats(0, 1))
@settings(max_examples=100)
def test_layouts_may_change_with_a_restart(
    before: list[tuple[int, int]], after: list[tuple[int, int]], quantile: float
) -> None:
    """Engines with other limits have other buckets, and their histograms are still one window's."""
    parts = [(*np.array(before).T, 2048), (*np.array(after).T, 16384)]
    bounds = snapshot_of(parts).bounds
    assert bounds is not None
    low, high = bounds.quantile_tokens(quantile)
    truth = np.quantile(np.array(before + after).sum(axis=1), quantile)
    assert low <= truth + 1e-6
    assert high is None or truth <= high + 1e-6


def test_a_limit_bounds_what_is_above_the_last_bucket() -> None:
    """Buckets stop below --max-model-len; only the limit itself bounds what lies above them."""
    prompt, output = np.full(100, 7000), np.full(100, 500)
    for limit_tokens, high in ((None, None), (8192, 8192)):
        bounds = snapshot_of([(prompt, output, 8192)], limit_tokens).bounds
        assert bounds is not None
        assert bounds.quantile_tokens(0.5) == (5001 + 201, high)


def test_a_limit_that_was_higher_before_bounds_nothing() -> None:
    """When the window holds a layout that shows a higher limit, today's limit is not used."""
    parts = [(np.full(5, 30_000), np.full(5, 1), 65536), (np.full(5, 100), np.full(5, 1), 8192)]
    bounds = snapshot_of(parts, 8192).bounds
    assert bounds is not None
    assert bounds.quantile_tokens(1.0)[0] > 8192


def test_a_window_of_histograms_survives_as_json_and_forgets() -> None:
    """State through JSON and back is the same, and what has left the window is gone."""
    lengths = ContextLengths(1000.0, slot_seconds=10.0)
    counts = histogram_of(np.array([100, 2000]), 8192)
    lengths.observe_histograms(interval_with(counts, counts, NOW_SECONDS, NOW_SECONDS + 10))
    again = ContextLengths.from_state(json.loads(json.dumps(lengths.state())))
    again.merge(lengths)
    assert again.snapshot(NOW_SECONDS + 20).requests == 4
    assert again.snapshot(NOW_SECONDS + 20).window_seconds == 10.0
    assert again.snapshot(NOW_SECONDS + 2000).requests == 0


def test_nothing_is_said_without_histograms() -> None:
    """Intervals without finished requests, or without the histograms, are no evidence."""
    lengths = ContextLengths(1000.0)
    none = histogram_of(np.array([], np.int64), 8192)
    lengths.observe_histograms(interval_with(none, none, NOW_SECONDS, NOW_SECONDS + 10))
    lengths.observe_histograms(interval_with(None, None, NOW_SECONDS, NOW_SECONDS + 10))
    snapshot = lengths.snapshot(NOW_SECONDS + 10)
    assert (snapshot.requests, snapshot.bounds, snapshot.source) == (0, None, LengthSource.ACCESS_LOG)


def test_access_logs_are_preferred() -> None:
    """With a logged request the lengths are exact, and the bounds still there to check them by."""
    lengths = ContextLengths(1000.0)
    counts = histogram_of(np.array([100]), 8192)
    lengths.observe_histograms(interval_with(counts, counts, NOW_SECONDS, NOW_SECONDS + 10))
    lengths.observe(LoggedRequest(Outcome.SERVED, NOW_SECONDS, 100, 100))
    snapshot = lengths.snapshot(NOW_SECONDS + 10)
    assert snapshot.source is LengthSource.ACCESS_LOG
    assert snapshot.total.quantile_tokens(0.5) == 200
    assert snapshot.bounds is not None
