"""Occupancy over real captures."""

from __future__ import annotations

import json
from dataclasses import replace

from support.intervals import Interval, together
from vllm_advisor.evidence.load import Short
from vllm_advisor.evidence.occupancy import Occupancy

BUSY = Interval(
    start_seconds=0.0,
    end_seconds=5.0,
    running=4.0,
    running_before=4.0,
    waiting=12.0,
    kv_used_ratio=0.005,
    awake=True,
    decode_seconds=20.0,
    decode_tokens=400.0,
    prompt_tokens=0.0,
    generation_tokens=400.0,
    first_tokens=0.0,
    ttft_seconds=0.0,
    queue_seconds=0.0,
    queued=0.0,
    steps=100.0,
    preemptions=0.0,
    finished=2.0,
)


def shifted(interval: Interval, seconds: float, **changes: float) -> Interval:
    """Return the interval later in time, with some values changed."""
    return replace(
        interval,
        start_seconds=interval.start_seconds + seconds,
        end_seconds=interval.end_seconds + seconds,
        **changes,
    )


def test_steps_at_the_cap_are_weighed_by_steps() -> None:
    """100 of 400 steps ran with 4 sequences, the rest with 3."""
    occupancy = Occupancy()
    occupancy.observe(together(BUSY))
    occupancy.observe(together(shifted(BUSY, 5, running=3.0, steps=300.0)))
    seen = occupancy.snapshot(20.0)

    assert seen.steps_at_cap_ratio(4) == 0.25
    assert seen.steps_at_cap_ratio(3) == 1.0
    assert seen.steps_at_cap_ratio(None) is None
    assert seen.greatest_running == 4


def test_cap_shows_as_a_plateau_under_waiting_requests() -> None:
    """Requests wait, the pool has room, and running never exceeds 4: the cap is 4."""
    occupancy = Occupancy()
    for second in range(0, 100, 5):
        occupancy.observe(together(shifted(BUSY, second)))

    assert occupancy.snapshot(200.0).plateau == 4


def test_full_pool_is_no_plateau() -> None:
    """Waiting on a full pool says nothing of the cap, and counts as memory."""
    occupancy = Occupancy()
    for second in range(0, 100, 5):
        occupancy.observe(together(shifted(BUSY, second, kv_used_ratio=0.99)))
    seen = occupancy.snapshot(200.0)

    assert seen.plateau is None
    short_of_memory = sum(load.seconds for load in seen.loads if load.short is Short.MEMORY)
    assert short_of_memory == seen.busy_seconds == 100.0


def test_pool_use_is_a_quantile_of_time() -> None:
    """90 s at a tenth, 10 s at nine tenths."""
    occupancy = Occupancy()
    for second in range(0, 100, 5):
        occupancy.observe(together(shifted(BUSY, second, kv_used_ratio=0.9 if second >= 90 else 0.1)))
    seen = occupancy.snapshot(200.0)

    assert (seen.kv_used_ratio(0.5), seen.kv_used_ratio(0.99)) == (0.1, 0.9)


def test_window_forgets_and_state_is_kept() -> None:
    """What is older than the window is gone; what is kept survives as JSON."""
    occupancy = Occupancy(window_seconds=7200.0)
    occupancy.observe(together(BUSY))
    occupancy.observe(together(shifted(BUSY, 8000.0, running=7.0)))
    restored = Occupancy.from_state(json.loads(json.dumps(occupancy.state())), 7200.0)

    for one in (occupancy, restored):
        seen = one.snapshot(12000.0)
        assert seen.steps_by_running == {7: 100.0}


def test_sleeping_engine_is_not_observed() -> None:
    """Levels of an engine that sleeps mean nothing."""
    occupancy = Occupancy()
    occupancy.observe(together(replace(BUSY, awake=False)))

    assert occupancy.snapshot(10.0).observed_seconds == 0


def test_a_late_interval_still_counts() -> None:
    """What ended before the turn of a slot may be seen after a snapshot in the next one."""
    occupancy = Occupancy()
    occupancy.observe(together(BUSY))
    before = occupancy.snapshot(1300.0).observed_seconds
    occupancy.observe(together(shifted(BUSY, 590.0)))
    occupancy.observe(together(shifted(BUSY, 1290.0)))

    assert before == 5.0
    assert occupancy.snapshot(1310.0).observed_seconds == 15.0
    assert occupancy.snapshot(1310.0, 600.0).observed_seconds == 5.0
