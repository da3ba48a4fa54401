"""Follows one deployment's metrics store: the past first, then what comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp
import structlog

from vllm_advisor.addresses import without_password
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config_discovery import PrometheusConfig
from vllm_advisor.evidence.deployment import GAP_SECONDS, Succession
from vllm_advisor.own_pages import OwnPages
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Target
from vllm_advisor.sources.engine_series import EngineSeries
from vllm_advisor.sources.http_client import AnswerError, TooSlowError
from vllm_advisor.sources.prometheus import Matrix, StoreApi, StoredPages, StretchLength, TooMuchError

__all__ = ["StoreFollower"]

_BEHIND_SECONDS = 300.0
_LATE_SECONDS = 120.0
"""So far behind our clock a store's newest samples may be and still be waited for."""
_PROGRESS_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
"""How long a store that fails keeps scraping and advice waiting."""
_RETRY_SECONDS = 1.0

log = structlog.get_logger()


class StoreFollower:
    """Takes an engine's pages from the store where it was not scraped by ourselves.

    A page counts once: one from the store is left out when we scraped pages of the same address before it and
    after it. Position and evidence change together, so a state saved at any time fits.

    Args:
        pipeline: takes the pages.
        config: of the store.
        state: what an earlier one gave.
    """

    def __init__(
        self, pipeline: DeploymentPipeline, config: PrometheusConfig, state: Mapping[str, Any] | None = None
    ) -> None:
        self._pipeline, self._config = pipeline, config
        self._pages = StoredPages()
        self._position_seconds: float | None = state["position_seconds"] if state else None
        self._is_resumed = self._position_seconds is not None
        self._own = OwnPages((state or {}).get("own"))
        self._targets: Sequence[Target] = ()
        self._length = StretchLength()
        self._warns = False
        self._in_turns: set[str] = set()
        self._fails = False
        self._well_seconds = 0.0
        self._told_seconds = 0.0
        self._following: asyncio.Task[None] | None = None
        self.is_catching_up = True
        """Whether the past is being read: until then there is nothing to scrape or to say."""

    def follow(self, session: aiohttp.ClientSession, clock: SteadyClock) -> None:
        """Begin to read, unless that goes on already."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow(StoreApi(session, self._config), clock))

    def scraped(self, targets: Sequence[Target]) -> None:
        """Take note of what is scraped by ourselves from now on."""
        self._note_own()
        self._targets = targets

    def state(self) -> dict[str, Any]:
        """Return how far the store was read, as plain JSON values."""
        self._note_own()
        return {"position_seconds": self._position_seconds, "own": self._own.state()}

    def close(self) -> None:
        """Stop reading; what was read stands in the evidence."""
        if self._following:
            self._following.cancel()

    async def _follow(self, api: StoreApi, clock: SteadyClock) -> None:
        self._well_seconds = time.monotonic()
        while True:
            try:
                await self._catch_up(api, clock)
            except AnswerError as error:
                self._note(str(error))
            except Exception:  # one answer that nobody foresaw must not end the reading for good
                if not self._fails:
                    log.exception("reading the store broke", deployment=self._pipeline.config.name)
                self._fails = True
            ill_seconds = time.monotonic() - self._well_seconds
            if self._fails and self.is_catching_up and ill_seconds < _PATIENCE_SECONDS:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self.is_catching_up = False
            await asyncio.sleep(self._config.interval_seconds)

    async def _catch_up(self, api: StoreApi, clock: SteadyClock) -> None:
        """Read up to now, resting as long as each answer took while there is a past to read."""
        while True:
            until_seconds = clock.now_seconds() - self._config.delay_seconds
            earliest_seconds = until_seconds - self._pipeline.config.context.window_seconds
            position_seconds = max(self._position_seconds or earliest_seconds, earliest_seconds)
            behind_seconds = until_seconds - position_seconds
            if behind_seconds <= 0:
                return
            self.is_catching_up |= behind_seconds > max(_BEHIND_SECONDS, 2 * self._config.interval_seconds)
            started = time.monotonic()
            end_seconds = min(until_seconds, position_seconds + self._length.seconds)
            is_newest = end_seconds == until_seconds
            if await self._read(api, position_seconds, end_seconds, is_newest=is_newest) and is_newest:
                return
            if self.is_catching_up:
                self._tell(end_seconds, 1 - behind_seconds / self._pipeline.config.context.window_seconds)
                await asyncio.sleep(time.monotonic() - started)

    async def _read(
        self, api: StoreApi, start_seconds: float, end_seconds: float, *, is_newest: bool
    ) -> bool:
        """Take a stretch in; return whether that was possible, or a shorter one has to be asked for."""
        try:
            matrix = await api.samples(start_seconds - self._overlap_seconds, end_seconds)
        except TooMuchError:
            if not self._length.shorten(end_seconds - start_seconds):
                raise
            return False
        except TooSlowError:
            self._length.shorten(end_seconds - start_seconds)
            raise
        self._warn(matrix.warning)
        self._length.fit(len(matrix.values) / (end_seconds - start_seconds))
        await asyncio.sleep(0)
        try:
            stretches = list(self._pages.stretches(matrix, start_seconds, with_last_before=self._is_resumed))
        except ValueError as error:
            raise AnswerError(f"the answer is no query result: {error}") from error
        await asyncio.sleep(0)
        self._note_own()
        for stretch in stretches:
            for name, engines in self._own.left_out_of(stretch):
                self._observe(name, engines)
        self._is_resumed = False
        self._position_seconds = _reached(matrix, start_seconds, end_seconds) if is_newest else end_seconds
        self._own.forget_before(self._position_seconds)
        self._pipeline.settle(end_seconds)
        self._well_seconds = time.monotonic()
        self._note("")
        return True

    @property
    def _overlap_seconds(self) -> float:
        """How far back to ask for the last pages that an earlier daemon read, to compare the next with."""
        return GAP_SECONDS if self._is_resumed else 0.0

    def _note_own(self) -> None:
        self._own.note(self._targets, self._position_seconds or 0.0)

    def _observe(self, name: str, engines: Sequence[EngineSeries]) -> None:
        succession = self._pipeline.observe_series(name, engines)
        if succession is Succession.IN_TURNS and name not in self._in_turns:
            self._in_turns.add(name)
            log.warning(
                "several engines answer in turns behind one address of the store",
                deployment=self._pipeline.config.name,
                target=without_password(name),
            )

    def _tell(self, position_seconds: float, done_ratio: float) -> None:
        if time.monotonic() - self._told_seconds < _PROGRESS_SECONDS:
            return
        self._told_seconds = time.monotonic()
        log.info(
            "reading the past from the store",
            deployment=self._pipeline.config.name,
            until=datetime.fromtimestamp(position_seconds, UTC).isoformat(timespec="seconds"),
            done_ratio=round(max(0.0, done_ratio), 3),
        )

    def _warn(self, warning: str) -> None:
        """Say once that the store leaves something out: what it gives later of that time is not seen."""
        if warning and not self._warns:
            log.warning(
                "the store answers in part", deployment=self._pipeline.config.name, problem=warning[:200]
            )
        self._warns = bool(warning)

    def _note(self, problem: str) -> None:
        if problem and not self._fails:
            log.warning("the store fails", deployment=self._pipeline.config.name, problem=problem)
        elif self._fails and not problem:
            log.info("the store answers again", deployment=self._pipeline.config.name)
        self._fails = bool(problem)


def _reached(matrix: Matrix, start_seconds: float, end_seconds: float) -> float:
    """Return up to where the store has given all: its clock, or what it takes in, may be behind ours."""
    newest_seconds = matrix.newest_seconds()
    known_seconds = start_seconds if newest_seconds is None else max(start_seconds, newest_seconds)
    return min(end_seconds, max(known_seconds, end_seconds - _LATE_SECONDS))
