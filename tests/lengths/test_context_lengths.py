"""A rolling window of context lengths: exact in what it forgets, small, and kept over a restart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.lengths import QUANTILES, TRACES, request, trace_lengths
from vllm_advisor.evidence.lengths import ContextLengths, LengthSource
from vllm_advisor.sources.access_logs import LoggedRequest, Outcome, ServedBlock

START_SECONDS = 1_796_000_400.0


@pytest.mark.parametrize("name", TRACES)
def test_every_window_of_a_sliding_replay_has_the_quantiles_of_its_rows(test_data: Path, name: str) -> None:
    """At each position the quantiles are numpy's on the raw rows of the window's slots, to 0.5%."""
    prompt, output = trace_lengths(test_data, name)
    times = START_SECONDS + np.arange(prompt.size, dtype=float)
    lengths = ContextLengths(3000.0, slot_seconds=100.0)
    for position, (asked, answered, seconds) in enumerate(zip(prompt, output, times, strict=True)):
        lengths.observe(LoggedRequest(Outcome.SERVED, seconds, int(asked), int(answered)))
        if position % 500:
            continue
        snapshot = lengths.snapshot(seconds)
        within = np.floor(times / 100) > np.floor(seconds / 100) - 30
        rows = (prompt + output)[within & (times <= seconds)]
        assert snapshot.requests == rows.size
        assert snapshot.longest_tokens == rows.max()
        for quantile in QUANTILES:
            found, expected = snapshot.total.quantile_tokens(quantile), np.quantile(rows, quantile)
            assert found == pytest.approx(expected, rel=0.005)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(2, 5000)), min_size=1, max_size=60),
    st.integers(1, 400),
)
@settings(max_examples=60)
def test_the_window_holds_exactly_what_is_in_its_slots(seen: list[tuple[int, int]], window: int) -> None:
    """Whatever the order of the observations, what has left is gone and what is in is counted."""
    lengths = ContextLengths(float(window), slot_seconds=10.0)
    lengths.snapshot(START_SECONDS)
    for after, total in seen:
        lengths.observe(request(total, START_SECONDS + after))
    for now in (START_SECONDS + 1000, START_SECONDS + 1200):
        last_slot, slots = now // 10, -(-window // 10)
        held = [total for after, total in seen if (START_SECONDS + after) // 10 > last_slot - slots]
        snapshot = lengths.snapshot(now)
        assert snapshot.requests == len(held)
        assert snapshot.longest_tokens == max(held, default=None)


def test_late_observations_are_counted_and_left_out() -> None:
    """What is older than the window at the last snapshot changes nothing but its count."""
    lengths = ContextLengths(100.0, slot_seconds=10.0)
    lengths.observe(request(50, START_SECONDS))
    lengths.snapshot(START_SECONDS)
    lengths.observe(request(99, START_SECONDS - 500))
    lengths.observe(LoggedRequest(Outcome.FAILED, START_SECONDS - 500))
    snapshot = lengths.snapshot(START_SECONDS)
    assert (snapshot.requests, snapshot.late, snapshot.outcomes.get("failed")) == (1, 2, None)


def test_what_each_request_adds() -> None:
    """Total, prompt, output, asked-for and cut lengths, and outcomes, are counted apart."""
    lengths = ContextLengths(1000.0)
    lengths.observe(LoggedRequest(Outcome.SERVED, START_SECONDS, 100, 20, 50))
    lengths.observe(LoggedRequest(Outcome.SERVED, START_SECONDS, 200, 30, cut_by_length=True))
    lengths.observe(
        LoggedRequest(Outcome.REJECTED_FOR_LENGTH, START_SECONDS, 240, None, 16, limit_tokens=250)
    )
    lengths.observe(LoggedRequest(Outcome.WITHOUT_USAGE, START_SECONDS))
    snapshot = lengths.snapshot(START_SECONDS + 5)
    held = {
        kind: np.flatnonzero(getattr(snapshot, kind).counts).tolist()
        for kind in ("total", "prompt", "output", "requested", "cut")
    }
    assert held == {
        "total": [120, 230],
        "prompt": [100, 200],
        "output": [20, 30],
        "requested": [150, 256],
        "cut": [230],
    }
    assert snapshot.source is LengthSource.ACCESS_LOG
    assert (snapshot.rejected_for_length, snapshot.without_usage) == (1, 1)


def test_the_last_day_is_told_apart() -> None:
    """The longest request of the last day is not that of the window."""
    lengths = ContextLengths(604_800.0)
    lengths.observe(request(9000, START_SECONDS))
    lengths.observe(request(500, START_SECONDS + 90_000 + 3600))
    snapshot = lengths.snapshot(START_SECONDS + 90_000 + 3600)
    assert (snapshot.longest_tokens, snapshot.longest_last_day_tokens) == (9000, 500)


def filled(seed: int) -> ContextLengths:
    """Return a window with some days of traffic."""
    chance = np.random.default_rng(seed)
    lengths = ContextLengths(604_800.0)
    times, totals = chance.uniform(0, 500_000, 3000), chance.integers(2, 90_000, 3000)
    for seconds, total in zip(times, totals, strict=True):
        lengths.observe(request(int(total), START_SECONDS + seconds, max_tokens=100))
    lengths.observe(LoggedRequest(Outcome.FAILED, START_SECONDS))
    return lengths


def test_a_window_survives_as_json() -> None:
    """State through JSON and back is the same window, and goes on the same."""
    before = filled(1)
    after = ContextLengths.from_state(json.loads(json.dumps(before.state())))
    for seconds in (500_000, 700_000, 900_000):
        one, other = (lengths.snapshot(START_SECONDS + seconds) for lengths in (before, after))
        assert (one.total.counts == other.total.counts).all()
        assert (one.requested.counts == other.requested.counts).all()
        assert (one.outcomes, one.longest_tokens) == (other.outcomes, other.longest_tokens)
    assert one.requests < 3000


def test_a_restored_window_forgets_and_grows_like_the_first() -> None:
    """Slots that are read from text only when they change or leave come out as they went in."""
    before = filled(6)
    after = ContextLengths.from_state(json.loads(json.dumps(before.state())))
    old = {key: value for key, value in after.state().items() if key.startswith("slot/")}
    assert old == {key: value for key, value in before.state().items() if key.startswith("slot/")}
    for lengths in (before, after):
        lengths.observe(request(321, START_SECONDS + 1000))
    assert after.state() == before.state()
    raw = np.add(after.snapshot(START_SECONDS + 604_800).total.counts, 0)
    without_total = after.state()
    without_total["head"].pop("total")
    earlier = ContextLengths.from_state(json.loads(json.dumps(without_total)))
    assert (earlier.snapshot(START_SECONDS + 604_800).total.counts == raw).all()


@pytest.mark.parametrize("texts", [["AQA=", "AQEB"], ["AQA=", ""], ["AQACAA==", "AQID"], [1, 2], ["AQA="]])
def test_counts_that_do_not_fit_their_cells_are_refused(texts: list[object]) -> None:
    """A slot whose texts cannot belong together is told at once, not when it is needed."""
    state = filled(7).state()
    key = next(key for key in state if key.startswith("slot/"))
    state[key] = [*state[key][:4], *texts]
    with pytest.raises((TypeError, ValueError)):
        ContextLengths.from_state(state)


def test_only_what_changed_is_new_in_the_state() -> None:
    """A slot's state is the same object until the slot changes: a store need not write it again."""
    lengths = filled(2)
    before = lengths.state()
    lengths.observe(request(77, START_SECONDS + 500_001))
    after = lengths.state()
    changed = [key for key in after if key.startswith("slot/") and after[key] is not before.get(key)]
    assert len(changed) == 1


@pytest.mark.parametrize("damage", [{}, {"head": {}}, {"head": None}, {"head": {"slot_seconds": "x"}}])
def test_a_state_that_is_none_is_refused(damage: dict[str, object]) -> None:
    """A damaged state raises, and does not become a window."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        ContextLengths.from_state(damage)


def test_windows_merge() -> None:
    """Two windows merged hold what one window of both would."""
    one, other = filled(3), filled(4)
    both = filled(3)
    both.merge(filled(4))
    now = START_SECONDS + 500_000
    summed = one.snapshot(now).total.counts + other.snapshot(now).total.counts
    merged = both.snapshot(now)
    assert (merged.total.counts == summed).all()
    assert merged.outcomes["failed"] == 2


def test_blocks_and_requests_are_the_same() -> None:
    """Columns of many requests count as each request would."""
    chance = np.random.default_rng(5)
    times = START_SECONDS + chance.uniform(0, 50_000, 500)
    prompt, output, asked = chance.integers(1, 9000, (3, 500))
    cut = chance.random(500) < 0.1
    one, other = ContextLengths(100_000.0), ContextLengths(100_000.0)
    one.observe(ServedBlock(times, prompt, output, asked, cut))
    columns = (times, prompt, output, asked, cut)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        other.observe(LoggedRequest(Outcome.SERVED, *row))
    snapshots = [lengths.snapshot(START_SECONDS + 50_000) for lengths in (one, other)]
    for kind in ("total", "prompt", "output", "requested", "cut"):
        first, second = (getattr(snapshot, kind).counts for snapshot in snapshots)
        assert (first == second).all()


def test_memory_is_bounded_whatever_the_times_say() -> None:
    """Times all over the place do not make slots without end."""
    lengths = ContextLengths(1000.0, slot_seconds=10.0)
    for step in range(5000):
        lengths.observe(request(100, START_SECONDS + step * 1000.0))
    assert len(lengths.state()) <= 2 * 100 + 2
