"""A whole sweep: level after level, within limits, leaving nothing running."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import aiohttp

from vllm_advisor.config import SloConfig
from vllm_advisor.errors import EvidenceError
from vllm_advisor.sources.load.endpoint import Endpoint, Outcome, Timed, stream
from vllm_advisor.sources.load.level import LevelLimits, LevelRun, run_level
from vllm_advisor.sources.load.requests import RequestSource
from vllm_advisor.sources.load.schedule import next_concurrency
from vllm_advisor.sources.load.watch import Busy, peak_while
from vllm_advisor.sources.sweep_file import Sweep, SweepLevel

__all__ = ["SweepLimits", "SweepPlan", "SweepRun", "run_sweep"]

_CONNECT_SECONDS = 10.0
_SILENT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """How far a sweep goes.

    Args:
        levels: concurrencies to measure, ascending; None to double from one.
        highest: the most users at once.
        refine: halve the bracket around the target.
        requests: measured requests a level, and at least three for each user.
        level_seconds: the most time a level takes after its warm-up.
        seconds: the most time in all.
        tokens: the most output tokens in all.
    """

    levels: Sequence[int] | None = None
    highest: int = 256
    refine: bool = True
    requests: int = 60
    level_seconds: float = 60.0
    seconds: float = 1800.0
    tokens: int = 2_000_000


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """What to load, with what, against which target, and how far."""

    endpoint: Endpoint
    source: RequestSource
    slo: SloConfig
    limits: SweepLimits


@dataclass(slots=True)
class SweepRun:
    """What a sweep measured so far, and why it went no further."""

    levels: list[SweepLevel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def sweep(self) -> Sweep:
        """Return the sweep as its file holds it."""
        engine = self.facts | ({"notes": self.notes} if self.notes else {})
        return Sweep(tuple(sorted(self.levels, key=lambda level: level.concurrency)), engine)


async def run_sweep(plan: SweepPlan, run: SweepRun, on_level: Callable[[SweepLevel], None]) -> None:
    """Measure level after level into a run, which is whole after each level whatever comes next.

    Raises:
        InputError: the server refuses a request for what it is.
        EvidenceError: the server cannot be reached, or its first answer is no stream of tokens.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await _probe(session, plan, run)
        sweep = _Sweep(session, plan, run)
        while (users := sweep.next_users()) is not None:
            level = await sweep.measure(users)
            if level is None:
                return
            run.levels.append(level)
            on_level(level)


async def _probe(session: aiohttp.ClientSession, plan: SweepPlan, run: SweepRun) -> None:
    """Send one request: does it stream, does it say its usage, and how long are random words in tokens."""
    prompt, _ = plan.source.draw()
    timed = await stream(session, plan.endpoint, prompt, 2)
    if timed.outcome is Outcome.RATE_LIMITED:
        raise EvidenceError("the endpoint refuses the first request already: too many requests")
    if timed.outcome is not Outcome.DONE:
        raise EvidenceError("the endpoint's first answer is no stream of tokens")
    if timed.prompt_tokens is None:
        run.notes.append("The endpoint reports no usage: tokens were counted as chunks.")
    else:
        plan.source.learn(len(prompt.split()), timed.prompt_tokens)


class _Sweep:
    """A sweep under way."""

    def __init__(self, session: aiohttp.ClientSession, plan: SweepPlan, run: SweepRun) -> None:
        self._session, self._plan, self._run = session, plan, run
        self._limits = plan.limits
        self._ends_seconds = perf_counter() + plan.limits.seconds
        self._tokens = 0

    def next_users(self) -> int | None:
        """Return the next level, None when done or out of time or tokens."""
        if perf_counter() >= self._ends_seconds or self._tokens >= self._limits.tokens:
            self._run.notes.append("Stopped at the limit on time or tokens.")
            return None
        met = {level.concurrency: self._met(level) for level in self._run.levels}
        limits = self._limits
        return next_concurrency(met, levels=limits.levels, highest=limits.highest, refine=limits.refine)

    async def measure(self, users: int) -> SweepLevel | None:
        """Run one level; None, with a note, where it was not reached."""
        limits = LevelLimits(
            requests=max(self._limits.requests, 3 * users),
            seconds=min(self._limits.level_seconds, self._ends_seconds - perf_counter()),
            tokens=self._limits.tokens - self._tokens,
        )
        seen: list[Busy] = []
        watching = asyncio.create_task(peak_while(self._session, self._plan.endpoint, seen))
        try:
            level_run = await run_level(users, self._send, limits)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        self._tokens += level_run.output_tokens
        return self._judged(level_run, seen)

    async def _send(self) -> Timed:
        prompt, output_tokens = self._plan.source.draw()
        return await stream(self._session, self._plan.endpoint, prompt, output_tokens)

    def _met(self, level: SweepLevel) -> bool:
        tpot = level.tpot_seconds.get(self._plan.slo.statistic, level.tpot_seconds["p99"])
        return tpot <= self._plan.slo.tpot_seconds

    def _judged(self, level_run: LevelRun, seen: list[Busy]) -> SweepLevel | None:
        users, level = level_run.users, level_run.level()
        reason = _shortfall(level_run, seen)
        if level is None and reason is None:
            reason = f"no request finished within {self._limits.level_seconds:g} s of a warm-up"
        if reason is None:
            return level
        self._run.notes.append(f"A level of {users} users was not reached: {reason}.")
        return None


def _shortfall(level_run: LevelRun, seen: list[Busy]) -> str | None:
    """Return why a level is not what it set out to be, None where it is."""
    if level_run.is_rate_limited:
        return "the endpoint refuses so many requests at once"
    if level_run.is_broken:
        return f"{level_run.outcomes[Outcome.BROKEN]} streams broke off"
    late = seen[len(seen) // 2 :]
    most = max((one.running for one in late), default=math.inf)
    if late and most < level_run.users and all(one.waiting >= 1 for one in late):
        return f"the engine runs at most {most:g} at once, the others wait"
    return None
