"""Whether a level was what it set out to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vllm_advisor.sources.load.level import LevelRun
from vllm_advisor.sources.load.watch import Busy

__all__ = ["others_served", "reachable_users", "shortfall"]


def shortfall(run: LevelRun, seen: Sequence[Busy]) -> str | None:
    """Return why a level is not what it set out to be, None where it is.

    Args:
        run: how it went.
        seen: the engine while it ran, second by second.
    """
    if run.is_rate_limited:
        return f"the endpoint refuses so many requests at once (it {run.problem})"
    if run.is_broken:
        return f"too many requests failed, the last of them by {run.problem}"
    most = reachable_users(run.users, seen)
    if most is not None:
        return f"the engine runs at most {most} at once, the others wait"
    if len(run.measured) < min(run.wanted, run.users):
        return (
            f"its limit on time or tokens came with {len(run.measured)} requests finished after the warm-up"
        )
    return (
        None
        if any(timed.tpot_seconds is not None for timed in run.measured)
        else "its outputs are one token long"
    )


def reachable_users(users: int, seen: Sequence[Busy]) -> int | None:
    """Return how many at once an engine runs that mostly kept some users waiting, None if it did not.

    Now and then nobody waits even at an engine's cap: requests of one length end together.
    """
    late = _late(seen)
    most = max((one.running for one in late), default=0.0)
    if most < 1 or most >= users or np.median([one.waiting for one in late]) < 1:
        return None
    return int(most)


def others_served(users: int, seen: Sequence[Busy]) -> float:
    """Return how many requests of others an engine typically had beside the users'."""
    late = [one.running + one.waiting for one in _late(seen)]
    return max(0.0, float(np.median(late)) - users) if late else 0.0


def _late(seen: Sequence[Busy]) -> Sequence[Busy]:
    return seen[len(seen) // 2 :]
