"""Occupancy over time: means, the most, and how long it is kept."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from support.intervals import between
from vllm_advisor.evidence.intervals import Intervals
from vllm_advisor.evidence.timeline import Timeline
from vllm_advisor.sources.engine_sample import EngineSample

START = 1_800_000_000.0


def interval(
    start: float, seconds: float, running: float, waiting: float = 0.0, used: float = 0.5
) -> Intervals:
    """Return an interval at whose end so many sequences ran."""
    sample = EngineSample(engine="0", model_name="m", running=running, waiting=waiting, kv_used_ratio=used)
    return between([(start, sample), (start + seconds, sample)])


def test_mean_is_weighted_by_time() -> None:
    """Ten sequences for one second and forty for three make a mean of 32.5 and a most of 40."""
    timeline = Timeline()
    timeline.observe(interval(START, 1, running=10, waiting=4, used=0.1))
    timeline.observe(interval(START + 1, 3, running=40, used=0.5))
    (point,) = timeline.points()

    assert (point.start_seconds, point.seconds) == (START, 10.0)
    assert (point.running_mean, point.running_max, point.waiting_mean) == (32.5, 40.0, 1.0)
    assert (point.kv_used_mean_ratio, point.kv_used_max_ratio) == (0.4, 0.5)


def test_older_hours_are_coarser_and_older_days_gone() -> None:
    """After thirty hours the last hour is in ten seconds, the day before in five minutes, no more is kept."""
    timeline = Timeline()
    end = START + 30 * 3600
    for at in range(0, 30 * 3600, 5):
        timeline.observe(interval(START + at, 5, running=1 + at // 3600))
        if at % 600 == 0:
            timeline.forget(START + at)
    timeline.forget(end)
    points = timeline.points()
    fine = [point for point in points if point.seconds == 10.0]

    assert 356 <= len(fine) <= 361
    assert 270 <= len(points) - len(fine) <= 288
    assert points[0].start_seconds >= end - 86400 - 300
    assert [point.start_seconds for point in points] == sorted({point.start_seconds for point in points})
    assert points[-1].running_mean == 30


@given(st.lists(st.integers(0, 500), min_size=1, max_size=50))
def test_restart_keeps_the_day(running: list[int]) -> None:
    """What is saved and read back gives the same five-minute points."""
    timeline = Timeline()
    for number, count in enumerate(running):
        timeline.observe(interval(START + number * 300, 5, running=count))
    again = Timeline.from_state(json.loads(json.dumps(timeline.state())))
    by_start = {point.start_seconds: point for point in again.points()}

    assert [by_start[START + number * 300].running_mean for number in range(len(running))] == running
