"""Intervals between two pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vllm_advisor.evidence.interval import counters_fell, interval_between
from vllm_advisor.sources.engine_sample import EngineSample, Histogram

BOUNDS = (10.0, 100.0, float("inf"))
EARLIER = EngineSample(
    engine="0",
    model_name="m",
    running=4.0,
    generation_tokens=1000.0,
    prompt_tokens=5000.0,
    itl_sum=100.0,
    itl_count=900.0,
    iteration_count=50.0,
    ttft=Histogram((1.0, float("inf")), (40.0, 50.0), 30.0, 50.0),
    prompt_lengths=Histogram(BOUNDS, (1.0, 4.0, 5.0), 700.0, 5.0),
)
LATER = replace(
    EARLIER,
    running=6.0,
    generation_tokens=1310.0,
    itl_sum=120.0,
    itl_count=1200.0,
    iteration_count=130.0,
    ttft=Histogram((1.0, float("inf")), (45.0, 60.0), 36.0, 60.0),
    prompt_lengths=Histogram(BOUNDS, (1.0, 6.0, 9.0), 1900.0, 9.0),
)


def test_littles_law_gives_concurrency_and_tpot() -> None:
    """20 s of decoding in 5 s is 4 sequences; 310 tokens, 10 of them first ones, took 20/300 s each."""
    interval = interval_between(EARLIER, 1000.0, LATER, 1005.0)

    assert interval is not None
    assert interval.decode_seconds / interval.seconds == 4.0
    assert interval.tpot_seconds == pytest.approx(20 / 300)
    assert (interval.steps, interval.first_tokens, interval.ttft_seconds) == (80.0, 10.0, 6.0)
    assert interval.prompt_lengths is not None
    assert interval.prompt_lengths.counts == (0.0, 2.0, 2.0)
    assert interval.prompt_lengths.total == 1200.0


def test_nothing_is_compared_over_a_restart() -> None:
    """Any counter that fell means another life of the engine."""
    fresh = replace(LATER, itl_sum=1.0)

    assert counters_fell(EARLIER, fresh)
    assert interval_between(EARLIER, 1000.0, fresh, 1005.0) is None


def test_nothing_is_compared_when_time_did_not_advance() -> None:
    """A clock that stands still or runs backwards gives no rate."""
    assert interval_between(EARLIER, 1000.0, LATER, 1000.0) is None
    assert interval_between(EARLIER, 1000.0, LATER, 990.0) is None


def test_no_token_decoded_gives_no_tpot() -> None:
    """Without tokens there is no time per token."""
    interval = interval_between(EARLIER, 0.0, EARLIER, 1.0)

    assert interval is not None
    assert interval.tpot_seconds is None


def test_histogram_of_another_layout_is_left_out() -> None:
    """Another max-model-len changes the buckets; two layouts are never subtracted."""
    other = replace(LATER, prompt_lengths=Histogram((10.0, float("inf")), (1.0, 9.0), 1900.0, 9.0))
    interval = interval_between(EARLIER, 0.0, other, 1.0)

    assert interval is not None
    assert interval.prompt_lengths is None
