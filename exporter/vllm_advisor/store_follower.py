"""Follows one deployment's metrics store: the past first, then what comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import structlog

from vllm_advisor.clock import SteadyClock
from vllm_advisor.config_discovery import PrometheusConfig
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Target
from vllm_advisor.sources.http_client import AnswerError
from vllm_advisor.sources.prometheus import StoreApi, StoredPages, StoredStretch, TooMuchError

__all__ = ["StoreFollower"]

_FIRST_STRETCH_SECONDS = 300.0
_SHORTEST_STRETCH_SECONDS = 60.0
_LONGEST_STRETCH_SECONDS = 7200.0
_SAMPLES_AT_ONCE = 400_000
_BEHIND_SECONDS = 300.0
_PROGRESS_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
"""How long a store that fails keeps scraping and advice waiting."""
_RETRY_SECONDS = 1.0

log = structlog.get_logger()


@dataclass(slots=True)
class _OwnPages:
    """From when to when an engine was scraped by ourselves."""

    first_seconds: float
    last_seconds: float


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
        self._own = {address: _OwnPages(*span) for address, span in (state or {}).get("own", {}).items()}
        self._targets: Sequence[Target] = ()
        self._names: dict[str, str] = {}
        self._stretch_seconds = _FIRST_STRETCH_SECONDS
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
        own = {address: [span.first_seconds, span.last_seconds] for address, span in self._own.items()}
        return {"position_seconds": self._position_seconds, "own": own}

    def close(self) -> None:
        """Stop reading; what was read stands in the evidence."""
        if self._following:
            self._following.cancel()

    async def _follow(self, api: StoreApi, clock: SteadyClock) -> None:
        self._well_seconds = time.monotonic()
        while True:
            try:
                await self._catch_up(api, clock)
                self._note("")
            except AnswerError as error:
                self._note(str(error))
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
            self.is_catching_up = behind_seconds > _BEHIND_SECONDS
            started = time.monotonic()
            end_seconds = min(until_seconds, position_seconds + self._stretch_seconds)
            await self._read(api, position_seconds, end_seconds)
            if not self.is_catching_up:
                return
            self._tell(end_seconds, 1 - behind_seconds / self._pipeline.config.context.window_seconds)
            await asyncio.sleep(time.monotonic() - started)

    async def _read(self, api: StoreApi, start_seconds: float, end_seconds: float) -> None:
        try:
            matrix = await api.samples(start_seconds, end_seconds)
        except TooMuchError:
            if self._stretch_seconds <= _SHORTEST_STRETCH_SECONDS:
                raise
            self._stretch_seconds = max(_SHORTEST_STRETCH_SECONDS, self._stretch_seconds / 2)
            return
        self._well_seconds = time.monotonic()
        self._fit_stretch(len(matrix.values) / (end_seconds - start_seconds))
        await asyncio.sleep(0)
        stretches = list(self._pages.stretches(matrix, start_seconds))
        await asyncio.sleep(0)
        self._note_own()
        for stretch in stretches:
            self._take_in(stretch)
        self._position_seconds = end_seconds
        self._pipeline.settle(end_seconds)

    def _note_own(self) -> None:
        """Note what was scraped by ourselves up to this moment."""
        self._names = {}
        for target in self._targets:
            address = urlsplit(target.shown).netloc
            self._names[address] = target.name
            if target.first_page_seconds is not None and target.last_page_seconds is not None:
                own = self._own.setdefault(address, _OwnPages(target.first_page_seconds, 0.0))
                own.last_seconds = target.last_page_seconds

    def _fit_stretch(self, samples_per_second: float) -> None:
        """Ask for about as many samples each time, however many engines there are."""
        wanted_seconds = _SAMPLES_AT_ONCE / max(samples_per_second, 1.0)
        self._stretch_seconds = min(
            _LONGEST_STRETCH_SECONDS,
            4 * self._stretch_seconds,
            max(_SHORTEST_STRETCH_SECONDS, wanted_seconds),
        )

    def _take_in(self, stretch: StoredStretch) -> None:
        """Observe the pages that were not scraped by ourselves."""
        name = self._names.get(stretch.instance, stretch.instance)
        own = self._own.get(stretch.instance)
        engines = stretch.engines
        if own is not None:
            engines = tuple(one.outside(own.first_seconds, own.last_seconds) for one in engines)
        self._pipeline.observe_series(name, [one for one in engines if len(one.time_seconds)])

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

    def _note(self, problem: str) -> None:
        if problem and not self._fails:
            log.warning("the store fails", deployment=self._pipeline.config.name, problem=problem)
        elif self._fails and not problem:
            log.info("the store answers again", deployment=self._pipeline.config.name)
        self._fails = bool(problem)
