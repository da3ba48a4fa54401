"""The history of recommendations: changes only, bounded, kept over a restart."""

from __future__ import annotations

import json

from vllm_advisor.evidence.history import History, HistoryPoint

DAY = 86400.0


def point(time_seconds: float, cap: int | None) -> HistoryPoint:
    """Return a recommendation of a cap."""
    return HistoryPoint(time_seconds, 8192, 131072, cap, 256, 80, cap, "latency")


def recorded(*caps: int | None, every_seconds: float = 10.0) -> History:
    """Record one cap after another."""
    history = History()
    for number, cap in enumerate(caps):
        history.record(point(number * every_seconds, cap))
    return history


def test_only_changes_are_kept() -> None:
    """What stays the same leaves one point, with the time it began."""
    history = recorded(None, 40, 40, 40, 41, 40)

    assert [(one.time_seconds, one.max_num_seqs) for one in history.points] == [
        (0.0, None),
        (10.0, 40),
        (40.0, 41),
        (50.0, 40),
    ]


def test_thirty_days_are_kept_with_what_held_at_their_beginning() -> None:
    """Changes of forty days ago are gone, but for the one that still held thirty days ago."""
    history = recorded(*range(1, 42), every_seconds=DAY)

    assert history.points[-1].time_seconds == 40 * DAY
    assert history.points[0].time_seconds == 9 * DAY
    assert len(history.points) == 32


def test_shortest_goes_first() -> None:
    """Beyond five hundred changes the one that held for the shortest time is dropped, never the newest."""
    history = recorded(*range(500), every_seconds=100.0)
    history.record(point(49_905.0, 1000))
    history.record(point(50_000.0, 1001))
    times = [one.time_seconds for one in history.points]

    assert len(times) == 500
    assert 49_900.0 not in times
    assert times[-1] == 50_000.0
    assert times[0] == 0.0


def test_restart_keeps_it() -> None:
    """What is saved and read back is the same, and the same object until it changes."""
    history = recorded(40, 41, None)
    again = History.from_state(json.loads(json.dumps(history.state())))
    held = history.state()["points"]
    history.record(point(99.0, None))

    assert again.points == history.points
    assert history.state()["points"] is held
