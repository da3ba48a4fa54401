"""Where busy time goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.intervals import Interval, together
from vllm_advisor.ceilings.bound_time import Bound, bound_time
from vllm_advisor.evidence.occupancy import Occupancy, OccupancySnapshot

SLO_SECONDS = 0.05


def interval(
    *, running: float, waiting: float = 0, kv_used: float = 0.4, tpot: float = 0.03, preemptions: float = 0
) -> Interval:
    """Return five seconds in one situation."""
    return Interval(
        start_seconds=0.0,
        end_seconds=5.0,
        running=running,
        running_before=running,
        waiting=waiting,
        kv_used_ratio=kv_used,
        awake=True,
        decode_seconds=5 * running,
        decode_tokens=5 * running / tpot,
        prompt_tokens=0.0,
        generation_tokens=5 * running / tpot,
        first_tokens=0.0,
        ttft_seconds=0.0,
        queue_seconds=0.0,
        queued=0.0,
        steps=5 / tpot,
        preemptions=preemptions,
        finished=0.0,
    )


def seen(*intervals: Interval) -> OccupancySnapshot:
    """Return the occupancy of some intervals in a row."""
    occupancy = Occupancy()
    for index, one in enumerate(intervals):
        occupancy.observe(together(replace(one, start_seconds=5.0 * index, end_seconds=5.0 * (index + 1))))
    return occupancy.snapshot(5.0 * len(intervals))


@pytest.mark.parametrize(
    ("one", "bound"),
    [
        (interval(running=118, waiting=34, kv_used=0.985, tpot=0.046), Bound.MEMORY),
        (interval(running=6, waiting=9, kv_used=0.86), Bound.MEMORY),
        (interval(running=200, preemptions=3), Bound.MEMORY),
        (interval(running=256, tpot=0.118), Bound.LATENCY),
        (interval(running=12, waiting=3, tpot=0.09), Bound.LATENCY),
        (interval(running=256, waiting=60), Bound.CAP),
        (interval(running=250, waiting=60), Bound.CAP),
        (interval(running=100, waiting=60), Bound.TOKEN_BUDGET),
        (interval(running=256), Bound.NOT_LOADED),
        (interval(running=6), Bound.NOT_LOADED),
    ],
)
def test_each_situation_has_its_class(one: Interval, bound: Bound) -> None:
    """Latency is one of its own: at the cap with nothing waiting, late tokens are not a healthy engine."""
    divided = bound_time(seen(one), cap=256, slo_tpot_seconds=SLO_SECONDS)

    assert divided.ratio(bound) == 1.0


def test_batch_work_is_never_late() -> None:
    """Without a target the same engine is at its cap."""
    divided = bound_time(seen(interval(running=256, waiting=9, tpot=0.5)), cap=256, slo_tpot_seconds=None)

    assert divided.ratio(Bound.CAP) == 1.0


def test_idle_time_is_not_busy() -> None:
    """An engine with nothing to do is bound by nothing."""
    divided = bound_time(seen(interval(running=0)), cap=256, slo_tpot_seconds=SLO_SECONDS)

    assert divided.busy_seconds == 0
    assert divided.ratio(Bound.NOT_LOADED) is None


@given(
    st.lists(
        st.builds(
            interval,
            running=st.integers(0, 300),
            waiting=st.integers(0, 50),
            kv_used=st.floats(0, 1),
            tpot=st.floats(0.001, 1),
            preemptions=st.integers(0, 2),
        ),
        min_size=1,
    ),
    st.none() | st.integers(1, 300),
)
def test_shares_add_up(intervals: list[Interval], cap: int | None) -> None:
    """Every busy second goes to exactly one class."""
    divided = bound_time(seen(*intervals), cap=cap, slo_tpot_seconds=SLO_SECONDS)

    busy = sum(5.0 for one in intervals if one.running or one.waiting)
    assert divided.busy_seconds == pytest.approx(busy)
    if busy:
        assert sum(divided.ratio(bound) or 0.0 for bound in Bound) == pytest.approx(1.0)
