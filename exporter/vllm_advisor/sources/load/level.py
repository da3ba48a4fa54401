"""A closed loop of users at one concurrency."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from vllm_advisor.config import SloConfig
from vllm_advisor.sources.load.stream import Outcome, Timed
from vllm_advisor.sources.sweep_file import SweepLevel

__all__ = ["LevelLimits", "LevelRun", "run_level"]

_LONGEST_PAUSE_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_MOST_BROKEN_RATIO = 0.2
_LEAST_BROKEN = 3
_TICK_SECONDS = 0.05

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Send = Callable[[], Coroutine[None, None, Timed]]


@dataclass(frozen=True, slots=True)
class LevelLimits:
    """When a level ends.

    Args:
        requests: enough measured requests.
        seconds: the most time, warm-up not counted; and warm-up may take as long again.
        tokens: output tokens left for the whole sweep.
    """

    requests: int
    seconds: float
    tokens: float


@dataclass(slots=True)
class LevelRun:
    """What a level showed so far.

    A request is measured when every user had finished one before it was sent: by then they are spread out,
    and all of them are at work until the level is stopped.

    Args:
        users: how many.
        wanted: measured requests that are enough.
        measured: those that were measured.
        outcomes: how all requests ended, those of the warm-up too.
        output_tokens: of all of them.
        steady_since_seconds: when every user had finished a request, None before.
        warm_users: who did.
        problem: what went wrong last.
    """

    users: int
    wanted: int
    measured: list[Timed] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    output_tokens: int = 0
    steady_since_seconds: float | None = None
    warm_users: set[int] = field(default_factory=set)
    problem: str = ""

    def take(self, user: int, timed: Timed) -> None:
        """Take in a user's finished request."""
        self.outcomes[timed.outcome] += 1
        if timed.outcome is not Outcome.DONE:
            self.problem = timed.problem
            return
        self.output_tokens += timed.output_tokens
        if self.steady_since_seconds is not None and timed.start_seconds >= self.steady_since_seconds:
            self.measured.append(timed)
        self.warm_users.add(user)
        if self.steady_since_seconds is None and len(self.warm_users) == self.users:
            self.steady_since_seconds = perf_counter()

    @property
    def is_rate_limited(self) -> bool:
        """Whether the server refused more than it served, so that the level was never reached."""
        return self.outcomes[Outcome.RATE_LIMITED] > max(_LEAST_BROKEN, self.outcomes[Outcome.DONE])

    @property
    def is_broken(self) -> bool:
        """Whether too many streams broke for the rest to be believed."""
        broken = self.outcomes[Outcome.BROKEN]
        return broken >= _LEAST_BROKEN and broken > _MOST_BROKEN_RATIO * self.outcomes.total()

    def level(self, slo: SloConfig) -> SweepLevel | None:
        """Return the level's statistics, the target's own among them, None where nothing was measured.

        Tokens a second follow from the closed loop, in which all users are always at work: their number times
        tokens over the time that these took. So requests that only reach into that time do not bend it.
        """
        tpots = [timed.tpot_seconds for timed in self.measured if timed.tpot_seconds is not None]
        if not tpots:
            return None
        quantiles = dict(_QUANTILES)
        if not isinstance(slo.quantile, str):
            quantiles[slo.statistic] = slo.quantile
        tpot = {name: float(np.quantile(tpots, quantile)) for name, quantile in quantiles.items()}
        tokens = sum(timed.output_tokens for timed in self.measured)
        busy_seconds = sum(timed.last_seconds - timed.start_seconds for timed in self.measured)
        return SweepLevel(
            concurrency=self.users,
            tpot_seconds={"mean": float(np.mean(tpots))} | tpot,
            ttft_p99_seconds=float(np.quantile([timed.ttft_seconds for timed in self.measured], 0.99)),
            output_tokens_per_second=self.users * tokens / busy_seconds,
            requests=len(tpots),
        )


async def run_level(
    users: int, send: Send, limits: LevelLimits, on_progress: Callable[[LevelRun], None]
) -> LevelRun:
    """Keep some users at work until enough was measured, or the level proves out of reach.

    However it ends, cancelled too, no request is left running: each one's connection is closed.

    Args:
        users: how many.
        send: sends one request and times it.
        limits: when to end.
        on_progress: told the run as it is, many times a second.

    Raises:
        InputError: the server refuses a request for what it is.
        EvidenceError: the server cannot be reached.
    """
    run = LevelRun(users, limits.requests)
    tasks = [asyncio.create_task(_user(user, send, run)) for user in range(users)]
    ends = asyncio.create_task(_until_enough(run, limits, on_progress))
    try:
        done, _ = await asyncio.wait([ends, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (ends, *tasks):
            task.cancel()
        for task in (ends, *tasks):
            with suppress(asyncio.CancelledError, Exception):
                await task
    return run


async def _user(user: int, send: Send, run: LevelRun) -> None:
    pause = _FIRST_PAUSE_SECONDS
    while True:
        timed = await send()
        run.take(user, timed)
        if timed.outcome is Outcome.DONE:
            pause = _FIRST_PAUSE_SECONDS
            continue
        await asyncio.sleep(min(timed.retry_after_seconds or pause, _LONGEST_PAUSE_SECONDS))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


async def _until_enough(run: LevelRun, limits: LevelLimits, on_progress: Callable[[LevelRun], None]) -> None:
    begun = perf_counter()
    while not (run.is_rate_limited or run.is_broken):
        await asyncio.sleep(_TICK_SECONDS)
        on_progress(run)
        since = run.steady_since_seconds
        if since is None and perf_counter() - begun > limits.seconds:
            return
        if since is not None and (
            len(run.measured) >= limits.requests or perf_counter() - since > limits.seconds
        ):
            return
        if run.output_tokens >= limits.tokens:
            return
