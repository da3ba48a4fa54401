"""The steady clock."""

from __future__ import annotations

from vllm_advisor.clock import SteadyClock


def test_step_of_the_wall_clock_bends_no_interval_until_it_is_followed() -> None:
    """Intervals follow the monotonic clock; a step is followed when asked, and told."""
    wall, monotonic = [1_000_000.0], [50.0]
    clock = SteadyClock(lambda: wall[0], lambda: monotonic[0])
    monotonic[0] += 5
    wall[0] += 5 + 3600

    assert clock.now_seconds() == 1_000_005
    assert clock.follow_step() == 3600
    assert clock.now_seconds() == 1_003_605
    assert clock.follow_step() == 0
