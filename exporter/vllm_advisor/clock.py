"""A clock that shows the time of day and does not jump."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["SteadyClock"]

_STEP_SECONDS = 1.0


class SteadyClock:
    """Unix time that advances with the monotonic clock, so that a step of the wall clock bends no interval.

    Args:
        wall: Unix time in seconds.
        monotonic: seconds that never step.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset_seconds = wall() - monotonic()

    def now_seconds(self) -> float:
        """Return Unix time."""
        return self._offset_seconds + self._monotonic()

    def follow_step(self) -> float:
        """Follow the wall clock if it stepped or drifted by over a second; return by how many seconds."""
        step_seconds = self._wall() - self.now_seconds()
        if abs(step_seconds) <= _STEP_SECONDS:
            return 0.0
        self._offset_seconds += step_seconds
        return step_seconds
