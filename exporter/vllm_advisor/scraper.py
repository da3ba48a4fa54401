"""Scrapes targets into their deployments, and says once when a target's state changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp
import structlog

from vllm_advisor.addresses import base_url, metrics_url, without_password
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import GlobalConfig
from vllm_advisor.evidence.deployment import Succession
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.engine_doors import fetch_facts
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.page import Page, PageReader, Problem
from vllm_advisor.sources.scrape import WELL, Fetched, Outcome, fetch_page
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["Scraper", "Target"]

_FACTS_SECONDS = 300.0
_TOGETHER = 20
"""Targets scraped at a time: pages read in a row cost 0.4 of what they cost one by one, caches being warm."""

log = structlog.get_logger()


@dataclass(slots=True)
class Target:
    """One address that is scraped, and how that went last.

    Args:
        name: as written in the configuration.
        outcome: of the last scrape, None before the first.
        detail: what was seen then.
        arguments: its engine's command line, where that is known.
        url: the page's address.
        shown: the same without a password.
    """

    name: str
    pipeline: DeploymentPipeline
    outcome: Outcome | None = None
    detail: str = ""
    last_scrape_seconds: float | None = None
    first_page_seconds: float | None = None
    last_page_seconds: float | None = None
    duration_seconds: float | None = None
    facts_due_seconds: float = 0.0
    scraping: asyncio.Task[None] | None = None
    arguments: EngineFacts = field(default_factory=EngineFacts)
    url: str = field(init=False)
    shown: str = field(init=False)
    is_stopped: bool = False
    faults: set[str] = field(default_factory=set)
    """Kinds of unforeseen exceptions that were logged."""

    def __post_init__(self) -> None:
        self.url = metrics_url(self.name)
        self.shown = without_password(self.url)

    def stop(self) -> None:
        """Give it up, a scrape that still runs too."""
        self.is_stopped = True
        if self.scraping:
            self.scraping.cancel()

    def state(self) -> dict[str, Any]:
        """Return how its last scrape went, as plain JSON values."""
        return {
            "deployment": self.pipeline.config.name,
            "url": self.shown,
            "outcome": self.outcome,
            "detail": self.detail,
            "last_scrape": self.last_scrape_seconds,
            "duration_seconds": self.duration_seconds,
            "arguments": {name: value for name, value in asdict(self.arguments).items() if value is not None},
        }


class Scraper:
    """Scrapes targets, each on its own, so that a slow one delays no other."""

    def __init__(
        self, session: aiohttp.ClientSession, limits: GlobalConfig, telemetry: Telemetry, clock: SteadyClock
    ) -> None:
        self._session = session
        self.limits = limits
        self._telemetry = telemetry
        self._clock = clock
        self._reader = PageReader()

    def scrape_all(self, targets: Iterable[Target]) -> None:
        """Begin a round, in batches spread over the interval; a target still being scraped is left alone."""
        targets = list(targets)
        self._reader.keep_only({target.url for target in targets})
        loop = asyncio.get_running_loop()
        spread_seconds = self.limits.scrape_interval_seconds / max(len(targets), 1)
        for index, target in enumerate(targets):
            loop.call_later(index // _TOGETHER * _TOGETHER * spread_seconds, self._begin, target)

    def _begin(self, target: Target) -> None:
        if not target.is_stopped and (target.scraping is None or target.scraping.done()):
            target.scraping = asyncio.create_task(self._scrape(target))

    async def _scrape(self, target: Target) -> None:
        started = time.monotonic()
        fetched = await fetch_page(
            self._session,
            target.url,
            timeout_seconds=self.limits.scrape_timeout_seconds,
            limit_bytes=self.limits.page_limit_bytes,
        )
        now_seconds = self._clock.now_seconds()
        # The page was written between the question and its answer: the middle is off by half of that at most.
        fetched = self._take_in(target, fetched, now_seconds - (time.monotonic() - started) / 2)
        outcome = fetched.outcome
        target.duration_seconds = time.monotonic() - started
        target.last_scrape_seconds = now_seconds
        self._telemetry.scrapes.labels(outcome).inc()
        self._telemetry.scrape_duration_seconds.observe(target.duration_seconds)
        _note(target, outcome, fetched.detail)
        if fetched.text is not None and (
            outcome is Outcome.RESTARTED or now_seconds >= target.facts_due_seconds
        ):
            target.facts_due_seconds = now_seconds + _FACTS_SECONDS
            await self._ask_facts(target)

    def _take_in(self, target: Target, fetched: Fetched, now_seconds: float) -> Fetched:
        """Take a page in; what came of it, a fault that nobody foresaw too, costs no evidence but its own."""
        if fetched.text is None:
            return fetched
        try:
            return self._observe(target, fetched.text, now_seconds)
        except Exception as error:  # one page must neither end the scraping nor fill the log
            kind = type(error).__name__
            if kind not in target.faults:
                target.faults.add(kind)
                log.exception(
                    "a page broke what reads it", target=target.shown, deployment=target.pipeline.config.name
                )
            return Fetched(Outcome.FAILED, detail=f"{kind} while it was taken in")

    def _observe(self, target: Target, text: bytes, now_seconds: float) -> Fetched:
        page = self._reader.read(text, target.url)
        succession = target.pipeline.observe_page(target.name, now_seconds, page.engines)
        if page.engines:
            target.first_page_seconds = target.first_page_seconds or now_seconds
            target.last_page_seconds = now_seconds
        if succession is Succession.IN_TURNS:
            return Fetched(Outcome.SEVERAL_ENGINES, text, "they answer in turns: give the address of each")
        return Fetched(Outcome.RESTARTED if succession is Succession.RESTARTED else _outcome(page), text)

    async def _ask_facts(self, target: Target) -> None:
        facts = await fetch_facts(
            self._session, base_url(target.name), timeout_seconds=self.limits.scrape_timeout_seconds
        )
        if facts is not None:
            target.pipeline.observe_facts(target.name, facts)


def _outcome(page: Page) -> Outcome:
    """Name the worst problem of a page, in the order of `Problem`."""
    worst = next((problem for problem in Problem if problem in page.problems), None)
    return Outcome(worst) if worst else Outcome.OK


def _note(target: Target, outcome: Outcome, detail: str) -> None:
    before, target.outcome, target.detail = target.outcome, outcome, detail
    if outcome is Outcome.RESTARTED:
        log.info("engine restarted", target=target.shown, deployment=target.pipeline.config.name)
    if before is outcome or {before, outcome} <= WELL:
        return
    event = "target is well" if outcome in WELL else "target is not well"
    level = "info" if outcome in WELL else "warning"
    getattr(log, level)(
        event,
        target=target.shown,
        deployment=target.pipeline.config.name,
        outcome=str(outcome),
        detail=detail,
    )
