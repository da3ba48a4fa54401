"""How many requests of observed lengths fit a pool, against draws of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vllm_advisor.ceilings.overflow import OVERFLOW_PROBABILITY, sequences_that_fit

_DRAWS = 40_000


def _lengths(name: str) -> NDArray[np.float64]:
    random = np.random.default_rng(7)
    return {
        "ordinary": np.round(random.lognormal(7, 1, 20_000)),
        "heavy tail": np.round(random.pareto(1.5, 20_000) * 500 + 100),
        "two kinds": random.choice([100.0, 30_000.0], 20_000, p=[0.98, 0.02]),
        "narrow": np.round(random.normal(2000, 100, 20_000)),
    }[name]


@pytest.mark.parametrize(
    ("name", "capacity"),
    [
        ("ordinary", 100_000),
        ("ordinary", 580_000),
        ("heavy tail", 600_000),
        ("two kinds", 200_000),
        ("narrow", 50_000),
    ],
)
def test_the_number_is_the_largest_that_nearly_always_fits(name: str, capacity: float) -> None:
    """Of draws of that many requests at most one in a thousand overflows; 5% and one more do more often.

    The tolerance is three standard deviations of the share that the draws give.
    """
    lengths = _lengths(name)
    values, counts = np.unique(lengths, return_counts=True)
    fitting = sequences_that_fit(values, counts, capacity)
    random = np.random.default_rng(11)

    def overflows(requests: int) -> float:
        over = sum(
            (random.choice(lengths, (1000, requests)).sum(axis=1) > capacity).sum()
            for _ in range(_DRAWS // 1000)
        )
        return float(over) / _DRAWS

    noise = 3 * math.sqrt(OVERFLOW_PROBABILITY / _DRAWS)
    assert fitting >= 1
    assert overflows(fitting) <= OVERFLOW_PROBABILITY + noise
    assert overflows(math.ceil(fitting * 1.05) + 1) > OVERFLOW_PROBABILITY - noise


def test_a_normal_law_would_promise_too_much() -> None:
    """With a heavy tail the normal approximation promises half as much again."""
    lengths = _lengths("heavy tail")
    capacity = 600_000
    values, counts = np.unique(lengths, return_counts=True)
    mean, deviation = lengths.mean(), lengths.std()
    normal = max(n for n in range(1, 2000) if n * mean + 3.09 * deviation * math.sqrt(n) <= capacity)

    assert sequences_that_fit(values, counts, capacity) < 0.7 * normal


@settings(max_examples=50)
@given(st.integers(1, 500), st.integers(1, 10_000))
def test_requests_of_one_length_fill_the_pool(fits: int, length: int) -> None:
    """When all are alike, as many fit as the pool is long."""
    found = sequences_that_fit(np.array([float(length)]), np.array([3]), length * (fits + 0.5))

    assert found == fits


@pytest.mark.parametrize(
    ("sizes", "counts", "capacity"),
    [
        ([10.0], [0], 100.0),
        ([10.0], [5], 0.0),
        ([10.0], [5], -3.0),
        ([1000.0], [5], 10.0),
        ([0.0], [5], 10.0),
    ],
)
def test_nothing_fits_where_nothing_can(sizes: list[float], counts: list[int], capacity: float) -> None:
    """No requests, no pool, or requests larger than the pool give none."""
    assert sequences_that_fit(np.array(sizes), np.array(counts), capacity) == 0
