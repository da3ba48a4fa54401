"""Intervals between two pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.intervals import between
from vllm_advisor.evidence.deployment import DeploymentEvidence, Succession
from vllm_advisor.evidence.intervals import Intervals
from vllm_advisor.sources.engine_sample import EngineSample, Histogram
from vllm_advisor.sources.page import PageReader

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


def says_nothing(intervals: Intervals) -> bool:
    """Tell whether nothing increased, no level is known, and no histogram gained anything."""
    lengths = intervals.prompt_lengths
    levels = (intervals.running, intervals.running_before, intervals.waiting, intervals.kv_used_ratio)
    increases = (intervals.decode_seconds, intervals.decode_tokens, intervals.steps, intervals.first_tokens)
    return (
        lengths is not None
        and not lengths.known.any()
        and not intervals.awake.any()
        and bool(np.isnan(levels).all())
        and not np.any(increases)
    )


def test_littles_law_gives_concurrency_and_tpot() -> None:
    """20 s of decoding in 5 s is 4 sequences; 310 tokens, 10 of them first ones, took 20/300 s each."""
    interval = between([(1000.0, EARLIER), (1005.0, LATER)])

    assert interval.decode_seconds / interval.seconds == 4.0
    assert interval.decode_seconds / interval.decode_tokens == pytest.approx(20 / 300)
    assert (interval.steps, interval.first_tokens, interval.ttft_seconds) == (80.0, 10.0, 6.0)
    assert interval.prompt_lengths is not None
    assert interval.prompt_lengths.counts.tolist() == [[0.0, 2.0, 2.0]]


@pytest.mark.parametrize(
    "other",
    [
        replace(LATER, itl_sum=1.0),
        replace(LATER, created_seconds=950.5),
        replace(LATER, created_seconds=880.0),
    ],
)
def test_nothing_is_compared_over_a_restart(other: EngineSample) -> None:
    """Another life of the engine, or another engine: a counter fell, or counts from another moment."""
    earlier = replace(EARLIER, created_seconds=900.0)

    assert says_nothing(between([(1000.0, earlier), (1005.0, other)]))


def test_a_start_that_only_one_page_tells_is_no_restart() -> None:
    """A page without it is compared all the same."""
    earlier = replace(EARLIER, created_seconds=900.0)

    assert between([(1000.0, earlier), (1005.0, LATER)]).steps == 80.0


def test_nothing_is_compared_when_time_did_not_advance() -> None:
    """A clock that stands still or runs backwards gives no rate."""
    assert says_nothing(between([(1000.0, EARLIER), (1000.0, LATER)]))
    assert says_nothing(between([(1000.0, EARLIER), (990.0, LATER)]))


def test_no_token_decoded_gives_no_tokens_to_divide_by() -> None:
    """Without tokens there is no time per token."""
    interval = between([(0.0, EARLIER), (1.0, EARLIER)])

    assert (interval.decode_tokens, interval.decode_seconds) == (0.0, 0.0)


def test_histogram_of_another_layout_is_left_out() -> None:
    """Another max-model-len changes the buckets; two layouts are never subtracted, all else is."""
    evidence = DeploymentEvidence(86400.0)
    other = replace(LATER, prompt_lengths=Histogram((10.0, float("inf")), (1.0, 9.0), 1900.0, 9.0))
    for time_seconds, sample in ((0.0, EARLIER), (1.0, other)):
        evidence.observe_page(
            "one", time_seconds, [replace(sample, generation_lengths=sample.prompt_lengths)]
        )

    assert evidence.snapshot(2.0).context.requests == 0
    assert evidence.snapshot(2.0).occupancy.observed_seconds == 1.0


def test_a_page_that_comes_late_counts_for_nothing() -> None:
    """From one source the newest page, from another one of before: no restart, and no request twice."""
    evidence = DeploymentEvidence(86400.0)
    pages = ((0.0, EARLIER), (10.0, LATER), (5.0, EARLIER), (10.0, LATER), (20.0, LATER))

    assert not any(evidence.observe_page("one", time_seconds, [page]) for time_seconds, page in pages)
    assert evidence.snapshot(20.0).occupancy.observed_seconds == 20.0
    assert evidence.snapshot(20.0).latency.stretches.tokens.sum() == pytest.approx(300.0)


@pytest.mark.parametrize(
    "increases",
    [{"itl_sum": 5 * 20_000.0}, {"generation_tokens": 5 * 2e7}],
    ids=["more sequences than any cap", "more tokens than any engine puts out"],
)
def test_what_no_engine_can_do_is_another_ones_page(increases: dict[str, float]) -> None:
    """Two engines behind one address take turns, and the one that is longer up seems to have done it all."""
    far_ahead = replace(LATER, **{name: getattr(LATER, name) + more for name, more in increases.items()})

    assert says_nothing(between([(1000.0, EARLIER), (1005.0, far_ahead)]))
    assert not says_nothing(between([(1000.0, EARLIER), (1005.0, LATER)]))


def test_two_real_engines_behind_one_address_are_told_apart(data: Path) -> None:
    """By when they began to count, though no counter falls from the one to the other.

    Two captures of engines that started two seconds apart take turns; what each did alone counts.
    """
    names = ("metrics-mid-llama-tiny-pool-preempting.prom", "metrics-mid-llama-max-num-seqs-4-waiting.prom")
    texts = [(data / "pages" / name).read_bytes() for name in names]
    evidence, reader = DeploymentEvidence(86400.0), PageReader()
    followed = [
        evidence.observe_page("one", 15.0 * index, reader.read(texts[which], "one").engines)
        for index, which in enumerate((0, 1, 1, 0))
    ]

    assert followed == [Succession.SAME, Succession.RESTARTED, Succession.SAME, Succession.IN_TURNS]
    assert evidence.snapshot(60.0).context.requests == 0
    assert evidence.snapshot(60.0).occupancy.observed_seconds == 15.0
