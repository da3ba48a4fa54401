"""A whole sweep: level after level, within limits, leaving nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

import aiohttp

from vllm_advisor.config import SloConfig
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.judge import others_served, reachable_users, shortfall
from vllm_advisor.sources.load.level import LevelLimits, LevelRun, run_level
from vllm_advisor.sources.load.probe import probe
from vllm_advisor.sources.load.requests import RequestSource
from vllm_advisor.sources.load.schedule import next_concurrency
from vllm_advisor.sources.load.stream import Timed, stream
from vllm_advisor.sources.load.watch import Busy, peak_while
from vllm_advisor.sources.sweep_file import Sweep, SweepLevel

__all__ = ["SweepLimits", "SweepPlan", "SweepProgress", "SweepRun", "run_sweep"]

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


class SweepProgress(Protocol):
    """Who follows a sweep."""

    def under_way(self, run: LevelRun) -> None:
        """Be told a level as it is, many times a second."""

    def ended(self, level: SweepLevel | None) -> None:
        """Be told that a level ended, None where it was not reached."""


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


async def run_sweep(plan: SweepPlan, run: SweepRun, progress: SweepProgress) -> None:
    """Measure level after level into a run, which is whole after each level whatever comes next.

    Raises:
        RefusedError: the server refuses a request for what it is.
        EvidenceError: the server cannot be reached, or its first answer is no stream of tokens.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        endpoint = await probe(session, plan.endpoint, plan.source, run.notes)
        sweep = _Sweep(session, replace(plan, endpoint=endpoint), run, progress)
        while (users := sweep.next_users()) is not None:
            level = await sweep.measure(users)
            if level is not None:
                run.levels.append(level)
            progress.ended(level)


class _Sweep:
    """A sweep under way."""

    def __init__(
        self, session: aiohttp.ClientSession, plan: SweepPlan, run: SweepRun, progress: SweepProgress
    ) -> None:
        self._session, self._plan, self._run, self._progress = session, plan, run, progress
        self._limits = plan.limits
        self._highest = plan.limits.highest
        self._ends_seconds = perf_counter() + plan.limits.seconds
        self._tokens = 0
        self._is_over = False

    def next_users(self) -> int | None:
        """Return the next level, None when done or out of time or tokens."""
        if self._is_over:
            return None
        met = {level.concurrency: self._met(level) for level in self._run.levels}
        limits = self._limits
        users = next_concurrency(met, levels=limits.levels, highest=self._highest, refine=limits.refine)
        is_out = perf_counter() >= self._ends_seconds or self._tokens >= limits.tokens
        if users is not None and is_out:
            self._run.notes.append("Stopped at the limit on time or tokens.")
            return None
        return users

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
            level_run = await run_level(users, self._send, limits, self._progress.under_way)
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
        return level.tpot_seconds[self._plan.slo.statistic] <= self._plan.slo.tpot_seconds

    def _judged(self, level_run: LevelRun, seen: Sequence[Busy]) -> SweepLevel | None:
        users, notes = level_run.users, self._run.notes
        others = others_served(users, seen)
        if others >= 1:
            notes.append(f"With {users} users the engine served {others:g} requests of others too.")
        level = level_run.level(self._plan.slo)
        reason = shortfall(level_run, seen)
        if reason is None:
            return level
        notes.append(f"A level of {users} users was not reached: {reason}.")
        self._highest = reachable_users(users, seen) or 0
        top = max((one.concurrency for one in self._run.levels), default=0)
        self._is_over = self._limits.levels is not None or self._highest <= top
        return None
