"""Waiting for what a running program does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def wait_for(
    condition: Callable[[], Answer], what: str, *, seconds: float = 20.0, every_seconds: float = 0.05
) -> Answer:
    """Return the condition's first true answer; fail when none came in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(every_seconds)
    raise AssertionError(f"{what} did not come within {seconds:g} s")
