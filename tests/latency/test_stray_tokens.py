"""A few stray tokens, as a batch makes while it fills or drains, say nothing of how requests fare."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.intervals import Interval, together
from support.latency_pages import intervals_seen
from vllm_advisor.ceilings.advice.expected import operating_at
from vllm_advisor.ceilings.latency import CurvePoint, LatencyCeiling, latency_ceiling
from vllm_advisor.config import SloConfig
from vllm_advisor.evidence.latency import LatencyEvidence
from vllm_advisor.evidence.latency.request_mix import RequestMix

LEVELS = (1, 2, 4, 8, 16, 32, 64)
TARGET = SloConfig(tpot="75ms", quantile="mean")
EIGHT_TOKENS = Interval(
    start_seconds=0.0,
    end_seconds=5.0,
    running=16.0,
    running_before=0.0,
    waiting=0.0,
    kv_used_ratio=0.1,
    awake=True,
    decode_seconds=0.9,
    decode_tokens=8.0,
    prompt_tokens=2000.0,
    generation_tokens=24.0,
    first_tokens=16.0,
    ttft_seconds=8.0,
    queue_seconds=0.0,
    queued=16.0,
    steps=3.0,
    preemptions=0.0,
    finished=0.0,
)
"""Sixteen requests that have just been prefilled: their first eight tokens took 0.11 s each."""


@pytest.fixture(scope="module")
def client(data: Path) -> dict[int, dict[str, float]]:
    """Return what clients measured, by level."""
    with (data / "latency" / "client.csv").open(encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {int(row["concurrency"]): row for row in rows}


def _ceiling(data: Path, levels: Sequence[int]) -> LatencyCeiling:
    evidence = LatencyEvidence()
    for intervals in intervals_seen([data / "latency" / f"c{level:02}.jsonl.gz" for level in levels]):
        evidence.observe(intervals)
        last = float(intervals.end_seconds[-1])
    return latency_ceiling(evidence.snapshot(last), TARGET)


def _tpot_seconds_at(curve: Sequence[CurvePoint], level: int) -> float:
    return float(np.interp(level, [p.concurrency for p in curve], [p.tpot_seconds for p in curve]))


def _throughput_at(curve: Sequence[CurvePoint], level: int) -> float:
    rates = [point.output_tokens_per_second or 0.0 for point in curve]
    return float(np.interp(level, [point.concurrency for point in curve], rates))


@pytest.mark.parametrize("level", [8, 16, 32, 64])
def test_half_a_minute_at_one_level_gives_the_clients_tpot(
    data: Path, client: dict[int, dict[str, float]], level: int
) -> None:
    """Within 7% of the stopwatch, though the capture begins with a batch that fills."""
    curve = _ceiling(data, [level]).curve
    assert _tpot_seconds_at(curve, level) == pytest.approx(client[level]["mean_tpot_s"], rel=0.07)


def test_a_target_that_clients_saw_met_is_not_met_nowhere(data: Path) -> None:
    """16 clients saw 68.9 ms: a target of 75 ms is met there, and half a minute tells nothing of above."""
    ceiling = _ceiling(data, [16])
    assert ceiling.curve[0].tpot_seconds <= 0.075
    assert ceiling.high is None or ceiling.high >= 16
    assert ceiling.sequences is None or ceiling.sequences >= 15


def test_no_ceiling_rests_on_a_few_tokens(data: Path) -> None:
    """68.9 ms at 16 clients, 101 ms at 32: a straight line between them meets 75 ms up to 19."""
    ceiling = _ceiling(data, LEVELS)
    assert ceiling.sequences is not None
    assert 16 <= ceiling.sequences <= 19


@pytest.mark.parametrize("level", LEVELS)
def test_throughput_of_the_curve_is_the_clients(
    data: Path, client: dict[int, dict[str, float]], level: int
) -> None:
    """Within 10% of what clients received a second, at every level."""
    curve = _ceiling(data, LEVELS).curve
    assert _throughput_at(curve, level) == pytest.approx(client[level]["output_tokens_per_s"], rel=0.10)


def test_throughput_between_levels_lies_between_the_clients(
    data: Path, client: dict[int, dict[str, float]]
) -> None:
    """24 sequences make more than 16 clients received, and less than 32."""
    at = operating_at(_ceiling(data, LEVELS).curve, 24)
    assert at is not None
    assert at.output_tokens_per_second is not None
    received = [client[level]["output_tokens_per_s"] for level in (16, 32)]
    assert received[0] < at.output_tokens_per_second < received[1]


def _steady(sequences: float, tpot_seconds: float, count: int, start: float) -> Iterator[Interval]:
    """Yield intervals of five seconds; requests decode 100 tokens."""
    tokens = 5 * sequences / tpot_seconds
    like = replace(
        EIGHT_TOKENS,
        running=sequences,
        running_before=sequences,
        decode_seconds=5 * sequences,
        decode_tokens=tokens,
        generation_tokens=1.01 * tokens,
        first_tokens=tokens / 100,
        finished=tokens / 100,
        ttft_seconds=0.0,
    )
    for begin in (start + 5.0 * index for index in range(count)):
        yield replace(like, start_seconds=begin, end_seconds=begin + 5.0)


def test_eight_tokens_are_no_point_of_the_curve() -> None:
    """One eighth of a second of decoding in a batch that fills is not what a request of 100 tokens sees."""
    evidence = LatencyEvidence()
    evidence.observe(together(EIGHT_TOKENS))
    evidence.break_engine("a")
    for interval in _steady(10, 0.025, 20, 5.0):
        evidence.observe(together(interval))
    points = latency_ceiling(evidence.snapshot(200), TARGET).curve
    assert [point.concurrency for point in points] == [pytest.approx(10, abs=0.5)]
    assert points[0].tpot_seconds == pytest.approx(0.025)
    assert points[0].output_tokens_per_second == pytest.approx(1.01 * 10 / 0.025)


def test_quiet_traffic_still_counts() -> None:
    """One request in ten seconds, 2 s long: its 100 tokens at 20 ms are a point well below one sequence."""
    evidence = LatencyEvidence()
    quiet = replace(next(_steady(1, 0.02, 1, 0.0)), decode_seconds=2.0, decode_tokens=100.0)
    quiet = replace(quiet, generation_tokens=101.0, first_tokens=1.0, finished=1.0)
    for index in range(20):
        begin = 10.0 * index
        evidence.observe(together(replace(quiet, start_seconds=begin, end_seconds=begin + 10)))
    (point,) = latency_ceiling(evidence.snapshot(200), TARGET).curve
    assert 0.2 < point.concurrency <= 1.0
    assert point.tpot_seconds == pytest.approx(0.02)


def test_requests_in_flight_do_not_make_the_typical_request_short() -> None:
    """Sixteen started and eight tokens made say nothing of 80; once they are done it is 80 each."""
    mix = RequestMix()
    mix.observe(together(EIGHT_TOKENS))
    assert mix.decoded_tokens == 100
    mix.observe(together(replace(EIGHT_TOKENS, decode_tokens=16 * 80 - 8.0, first_tokens=0.0, finished=16.0)))
    assert mix.decoded_tokens == 80


def test_met_nowhere_is_said_of_what_ran_for_a_whole_stretch() -> None:
    """Half a stretch at 5 sequences and many at 20, all over the target: 20 is the fewest that counts."""
    evidence = LatencyEvidence()
    for interval in (*_steady(5, 0.1, 2, 0.0), *_steady(20, 0.2, 40, 10.0)):
        evidence.observe(together(interval))
        if interval.end_seconds == 10.0:
            evidence.break_engine("a")
    ceiling = latency_ceiling(evidence.snapshot(300), TARGET)
    assert (ceiling.sequences, ceiling.low, ceiling.high) == (None, None, 20)
    assert ceiling.curve[0].concurrency == pytest.approx(5)
    assert ceiling.least_loaded is not None
    assert ceiling.least_loaded.concurrency == pytest.approx(20)
