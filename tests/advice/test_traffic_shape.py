"""The shape of traffic, and how far two shapes are apart."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from support.intervals import lengths_seen
from vllm_advisor.evidence.shape import CELLS, Shape, cell_of, counts_of, spread_over_cells
from vllm_advisor.evidence.traffic_shape import TrafficShape
from vllm_advisor.sources.access_logs import LoggedRequest, Outcome, ServedBlock

DAY = 86_400.0
LENGTHS = st.lists(st.integers(1, 100_000), min_size=1, max_size=200)


def shape_of(outputs: list[int]) -> Shape:
    """Return the shape of requests with such answers, and prompts alike."""
    counts = counts_of(np.array(outputs))
    return Shape(counts, counts)


def block(time_seconds: float, outputs: list[int], prompt: int = 900) -> ServedBlock:
    """Return requests at one time."""
    n = len(outputs)
    return ServedBlock(
        np.full(n, time_seconds),
        np.full(n, prompt, np.int64),
        np.array(outputs, np.int64),
        np.full(n, -1, np.int64),
        np.zeros(n, np.bool_),
    )


@given(LENGTHS)
def test_blocks_count_as_single_lines_do(tokens: list[int]) -> None:
    """The cells of many lengths at once are those of each."""
    assert (
        counts_of(np.array(tokens)).tolist()
        == np.bincount([cell_of(one) for one in tokens], minlength=CELLS).tolist()
    )


@given(LENGTHS, LENGTHS)
def test_distance_is_the_earth_movers_on_a_logarithmic_scale(first: list[int], second: list[int]) -> None:
    """Within a cell, a quarter of a doubling, it is scipy's."""
    expected = wasserstein_distance(np.log2(first), np.log2(second))

    assert math.log2(shape_of(first).distance(shape_of(second))[1]) == pytest.approx(expected, abs=0.2501)


@given(LENGTHS.map(lambda one: [max(20, tokens) for tokens in one]))
def test_twice_as_long_is_a_distance_of_two(outputs: list[int]) -> None:
    """However widely lengths spread."""
    assert shape_of([2 * one for one in outputs]).distance(shape_of(outputs))[1] == pytest.approx(2, rel=1e-3)


@given(st.lists(st.integers(0, 1000), min_size=13, max_size=13).filter(any))
def test_an_engines_buckets_are_spread_and_none_is_lost(counts: list[int]) -> None:
    """As many requests are in the cells as were in the buckets."""
    bounds = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, math.inf)

    assert spread_over_cells(lengths_seen(bounds, counts)).sum() == pytest.approx(sum(counts), rel=1e-4)


def test_a_daily_batch_is_known_by_its_time_of_day() -> None:
    """Long answers each night are what the same time of earlier days had, though not what the window had."""
    shape = TrafficShape(7 * DAY)
    for hour in range(4 * 24 + 1):
        outputs = [800] * 50 if hour % 24 == 0 else [200] * 50
        shape.observe_logged(block(hour * 3600.0 + 60, outputs))
    seen = shape.snapshot(4 * DAY + 300)

    assert seen.recent.distance(seen.before)[1] > 1.5
    assert seen.recent.output_tokens == pytest.approx(800, rel=0.2)
    assert seen.same_time.distance(seen.before)[1] > 1.2


def test_only_served_requests_with_lengths_count() -> None:
    """A refusal and a stream without usage have no shape."""
    shape = TrafficShape(DAY)
    shape.observe_logged(LoggedRequest(Outcome.REJECTED_FOR_LENGTH, 10.0, 5000, None))
    shape.observe_logged(LoggedRequest(Outcome.WITHOUT_USAGE, 10.0))
    shape.observe_logged(LoggedRequest(Outcome.SERVED, 10.0, 100, 20))

    assert shape.snapshot(20.0).recent.requests == 1


def test_the_window_forgets_and_state_is_kept() -> None:
    """What is older than the window is gone, in the original and in what was rebuilt."""
    shape = TrafficShape(DAY)
    shape.observe_logged(block(100.0, [200] * 10))
    shape.observe_logged(block(DAY, [200] * 7))
    again = TrafficShape(DAY)
    again.restore(json.loads(json.dumps(shape.state())))

    for one in (shape, again):
        assert one.snapshot(DAY + 4 * 3600.0).before.requests == 7
