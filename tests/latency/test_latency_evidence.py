"""The latency evidence: what it holds, forgets, and refuses to mix."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.intervals import Interval, lengths_seen, together
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency import latency_ceiling
from vllm_advisor.config import SloConfig
from vllm_advisor.evidence.latency import LatencyEvidence, LatencySnapshot
from vllm_advisor.evidence.latency.histogram import BUCKET_WIDTH, LogHistogram

DAY = 86400.0
STEADY = Interval(
    start_seconds=0.0,
    end_seconds=5.0,
    running=10.0,
    running_before=10.0,
    waiting=0.0,
    kv_used_ratio=0.2,
    awake=True,
    decode_seconds=50.0,
    decode_tokens=2000.0,
    prompt_tokens=4000.0,
    generation_tokens=2010.0,
    first_tokens=20.0,
    ttft_seconds=0.0,
    queue_seconds=0.0,
    queued=20.0,
    steps=200.0,
    preemptions=0.0,
    finished=20.0,
)
"""Ten sequences for five seconds at 25 ms a token, requests of 100 tokens."""


def _intervals(count: int, like: Interval = STEADY, start: float = 0.0) -> Iterator[Interval]:
    for index in range(count):
        begin = start + index * like.seconds
        yield replace(like, start_seconds=begin, end_seconds=begin + like.seconds)


def _at(sequences: float, tpot: float) -> Interval:
    """Return five seconds of so many sequences at a pace, requests of 100 tokens."""
    decoded = 5 * sequences / tpot
    return replace(
        STEADY,
        running=sequences,
        running_before=sequences,
        decode_seconds=5 * sequences,
        decode_tokens=decoded,
        generation_tokens=decoded * 1.01,
        first_tokens=decoded / 100,
    )


def _observed(*likes: Interval, each: int = 20) -> LatencyEvidence:
    evidence = LatencyEvidence()
    start = 0.0
    for like in likes:
        for interval in _intervals(each, like, start):
            evidence.observe(together(interval))
        evidence.break_engine("a")
        start += each * like.seconds
    return evidence


def _mean_curve(snapshot: LatencySnapshot) -> list[tuple[float, float]]:
    bins = snapshot.stretches
    return list(zip(bins.concurrency.tolist(), bins.tpot_seconds.tolist(), strict=True))


def test_littles_law() -> None:
    """50 decode seconds in 5 s are 10 sequences; over 2000 tokens, 25 ms each; 402 tokens a second."""
    snapshot = _observed(STEADY).snapshot(100)
    assert _mean_curve(snapshot) == [(pytest.approx(10), pytest.approx(0.025))]
    assert snapshot.stretches.output_tokens_per_second == pytest.approx([402])


def test_prefilling_sequences_run_too() -> None:
    """20 requests that took 0.5 s to their first token are two more sequences running than the ten."""
    prefilling = replace(STEADY, ttft_seconds=10.0, running=12.0, running_before=12.0)
    assert _mean_curve(_observed(prefilling).snapshot(100))[0][0] == pytest.approx(12)


def test_queueing_is_not_running() -> None:
    """At the cap with others waiting, time to first token is mostly queue: the gauge says what runs."""
    capped = replace(STEADY, waiting=30.0, ttft_seconds=500.0, running=11.0, running_before=11.0)
    assert _mean_curve(_observed(capped).snapshot(100))[0][0] == pytest.approx(11)


@pytest.mark.parametrize(
    "disturbed",
    [
        replace(STEADY, awake=False),
        replace(STEADY, preemptions=3.0),
        replace(STEADY, waiting=5.0, kv_used_ratio=0.99, running=4.0),
        replace(STEADY, end_seconds=300.0),
        replace(STEADY, decode_tokens=0.0, decode_seconds=0.0, running=0.0),
    ],
    ids=["asleep", "preempting", "pool full", "gap", "idle"],
)
def test_what_says_nothing_of_latency_is_left_out(disturbed: Interval) -> None:
    """Sleep, preemption, a full pool, a gap and idleness give no point of the curve."""
    evidence = LatencyEvidence()
    evidence.observe(together(STEADY))
    seen = float(evidence.snapshot(10).stretches.tokens.sum())
    evidence.observe(together(replace(disturbed, start_seconds=5.0, end_seconds=5.0 + disturbed.seconds)))
    assert evidence.snapshot(10).stretches.tokens.sum() == pytest.approx(seen)


def test_a_stretch_is_as_long_as_a_request() -> None:
    """Scrapes a second apart, requests of four seconds: the noise of single seconds averages out."""
    quick = replace(STEADY, end_seconds=1.0, decode_seconds=10.0)
    evidence = LatencyEvidence()
    for index, interval in enumerate(_intervals(200, quick)):
        tokens = 600.0 if index % 2 else 300.0
        evidence.observe(together(replace(interval, decode_tokens=tokens, first_tokens=tokens / 180)))
    widest = max(len(histogram.counts) for histogram in evidence.snapshot(200).stretches.histograms)
    assert widest * BUCKET_WIDTH < math.log(2) / 2


def test_engines_are_pooled_and_not_mixed() -> None:
    """Two engines at 10 and 20 sequences give two points, never one between."""
    evidence = LatencyEvidence()
    for one, other in zip(_intervals(20, _at(10, 0.025)), _intervals(20, _at(20, 0.04)), strict=True):
        evidence.observe(together(one))
        evidence.observe(together(other, engine_id="b"))
    assert _mean_curve(evidence.snapshot(100)) == [
        (pytest.approx(10), pytest.approx(0.025)),
        (pytest.approx(20), pytest.approx(0.04)),
    ]


def test_another_epoch_starts_empty() -> None:
    """After other flags, the old curve is gone."""
    evidence = _observed(STEADY)
    evidence.start_epoch(100)
    assert not len(evidence.snapshot(100).stretches.concurrency)
    unknown = latency_ceiling(evidence.snapshot(100), SloConfig())
    assert (unknown.sequences, unknown.grade, unknown.observed_to) == (None, Grade.NONE, None)


def test_what_was_seen_fades() -> None:
    """Half of the weight is left after a quarter of the retention, and nothing after many."""
    evidence = _observed(STEADY)
    fresh = float(evidence.snapshot(100).stretches.tokens.sum())
    aged = float(evidence.snapshot(100 + 7 * DAY / 4).stretches.tokens.sum())
    assert aged == pytest.approx(fresh / 2, rel=0.01)
    assert not len(evidence.snapshot(60 * DAY).stretches.concurrency)


def test_state_survives_a_restart() -> None:
    """The curve that comes back from its JSON is the same, and goes on."""
    evidence = _observed(_at(10, 0.02), _at(20, 0.03), _at(30, 0.05))
    evidence.observe(together(replace(STEADY, generation_lengths=lengths_seen((50.0, math.inf), (3.0, 1.0)))))
    rebuilt = LatencyEvidence.from_state(json.loads(json.dumps(evidence.state())))
    slo = SloConfig(tpot="40ms", quantile=0.9)
    assert latency_ceiling(rebuilt.snapshot(400), slo) == latency_ceiling(evidence.snapshot(400), slo)


def test_merging_adds() -> None:
    """Two halves make the whole."""
    whole = _observed(_at(10, 0.02), _at(20, 0.03))
    half, other = _observed(_at(10, 0.02)), _observed(_at(20, 0.03))
    half.merge(other)
    assert _mean_curve(half.snapshot(200)) == pytest.approx(np.array(_mean_curve(whole.snapshot(200))))


def test_straight_line_crosses_where_it_should() -> None:
    """10 ms + 1 ms a sequence: a target of 40.5 ms is met by 30 sequences, and graded measured."""
    evidence = _observed(*(_at(n, 0.010 + 0.001 * n) for n in range(20, 42, 2)))
    ceiling = latency_ceiling(evidence.snapshot(1100), SloConfig(tpot="40.5ms", quantile="mean"))
    assert (ceiling.sequences, ceiling.grade, ceiling.observed_to) == (30, Grade.MEASURED, 40)


@pytest.mark.parametrize(
    ("target", "sequences", "grade"),
    [("60.5ms", 50, Grade.EXTRAPOLATED), ("90ms", None, Grade.NONE), ("28.5ms", 18, Grade.EXTRAPOLATED)],
)
def test_beyond_what_was_seen(target: str, sequences: int | None, grade: Grade) -> None:
    """Seen from 20 to 40: up to 60 and down to 14 the line goes on, said so; beyond, nothing is said."""
    evidence = _observed(*(_at(n, 0.010 + 0.001 * n) for n in range(20, 42, 2)))
    ceiling = latency_ceiling(evidence.snapshot(1100), SloConfig(tpot=target, quantile="mean"))
    assert ceiling.grade is grade
    assert ceiling.sequences == (None if sequences is None else pytest.approx(sequences, abs=1))


def test_recent_values_are_of_the_last_minutes() -> None:
    """P99 of now, not of the week; and nothing once traffic has stopped."""
    evidence = _observed(_at(20, 0.05), each=60)
    for interval in _intervals(240, _at(10, 0.02), 300.0):
        evidence.observe(together(interval))
    assert evidence.snapshot(1500).tpot_recent_p99_seconds == pytest.approx(0.02, rel=0.02)
    assert evidence.snapshot(9000).tpot_recent_p99_seconds is None


def test_memory_is_bounded() -> None:
    """Whatever the traffic, the state of one deployment stays small."""
    rng = np.random.default_rng(1)
    evidence = LatencyEvidence()
    for index in range(5000):
        like = _at(float(np.exp(rng.uniform(0, 7))), float(np.exp(rng.uniform(-6, 0))))
        evidence.observe(together(replace(like, start_seconds=5.0 * index, end_seconds=5.0 * index + 5)))
    snapshot = evidence.snapshot(25000)
    assert len(snapshot.stretches.concurrency) < 180
    assert sum(len(histogram.counts) for histogram in snapshot.stretches.histograms) < 60_000


@given(
    st.lists(st.tuples(st.floats(1e-4, 1e3), st.floats(0.1, 100)), min_size=1, max_size=50),
    st.floats(0.01, 1),
)
def test_histogram_quantile_is_near(values: list[tuple[float, float]], quantile: float) -> None:
    """A weighted quantile is right to 1%."""
    histogram = LogHistogram()
    histogram.add(*np.array(values).T)
    ascending = sorted(values)
    reached = np.cumsum([weight for _, weight in ascending])
    near = {
        ascending[min(int(np.searchsorted(reached, quantile * reached[-1] * off)), len(ascending) - 1)][0]
        for off in (1 - 1e-6, 1 + 1e-6)
    }
    found = histogram.quantile(quantile)
    assert found is not None
    assert any(found == pytest.approx(value, rel=0.0102) for value in near)


def test_slow_steps_do_not_pass_for_prefill() -> None:
    """Noise that has nothing to do with prompts leaves 12 ms + 0.8 ms a sequence as it is: 40 ms at 35."""
    chance = np.random.default_rng(7)
    evidence = LatencyEvidence()
    for index in range(1500):
        sequences = float(chance.integers(5, 60))
        tpot = (0.012 + 0.0008 * sequences) * chance.uniform(0.9, 1.1)
        slow = replace(_at(sequences, tpot), prompt_tokens=float(chance.poisson(2000) * sequences / 15))
        for interval in _intervals(4, slow, 20.0 * index):
            evidence.observe(together(interval))
        evidence.break_engine("a")
    ceiling = latency_ceiling(evidence.snapshot(30000), SloConfig(tpot="40ms", quantile="mean"))
    assert ceiling.sequences == pytest.approx(35, abs=2)
    for point in ceiling.curve:
        assert point.tpot_seconds == pytest.approx(0.012 + 0.0008 * point.concurrency, rel=0.05)
