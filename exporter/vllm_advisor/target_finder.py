"""Follows one deployment's discoveries: which targets there are now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

import aiohttp
import structlog

from vllm_advisor.addresses import host_and_port, is_address, metrics_url, without_password
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.sources.discovery import Found, Listing, listings, relabel, target_name
from vllm_advisor.sources.engine_facts import EngineFacts

__all__ = ["TargetFinder"]

_DEFAULT_LABELS = {"__scheme__": "http", "__metrics_path__": "/metrics"}
_BEGIN_AGAIN_SECONDS = 30.0

log = structlog.get_logger()


class TargetFinder:
    """The targets of one deployment, listed by hand and discovered, relabelled, each once.

    Args:
        config: of the deployment.
        found: is given every target by its name, with what its command line says, whenever that changes.
    """

    def __init__(self, config: DeploymentConfig, found: Callable[[Mapping[str, EngineFacts]], None]) -> None:
        self._config = config
        self._found = found
        self._lists: dict[str, tuple[Found, ...]] = {}
        self._problems: dict[str, str] = {}
        self._following: list[asyncio.Task[None]] = []

    def follow(self, session: aiohttp.ClientSession) -> None:
        """Begin to discover, unless that goes on already."""
        if self._config.discovers and not self._following:
            self._following = [
                asyncio.create_task(self._follow(name, lists))
                for name, lists in listings(self._config, session).items()
            ]

    def targets(self) -> dict[str, EngineFacts]:
        """Return every target by its name; the first list that has one says what it is."""
        listed = [Found({"__address__": target}) for target in self._config.targets]
        found = [*listed, *(one for lists in self._lists.values() for one in lists)]
        names: dict[str, EngineFacts] = {}
        pages: set[tuple[str, ...]] = set()
        for one in found:
            name = self._name(one)
            if name and is_address(name) and (page := _page(name)) not in pages:
                pages.add(page)
                names[name] = one.facts
        return names

    def close(self) -> None:
        """Stop to discover."""
        for task in self._following:
            task.cancel()

    async def _follow(self, name: str, begin: Callable[[], AsyncGenerator[Listing, None]]) -> None:
        while True:
            try:
                await self._follow_once(name, begin())
            except Exception as error:  # one answer that nobody foresaw must not end a discovery for good
                if not self._problems.get(name):
                    log.exception("a discovery broke", deployment=self._config.name, discovery=name)
                self._problems[name] = f"{type(error).__name__}: {error}"
            await asyncio.sleep(_BEGIN_AGAIN_SECONDS)

    async def _follow_once(self, name: str, lists: AsyncGenerator[Listing, None]) -> None:
        async with aclosing(lists) as following:
            async for listing in following:
                self._note(name, listing.problem or self._odd_addresses(listing.targets or ()))
                if listing.targets is not None and listing.targets != self._lists.get(name):
                    self._lists[name] = listing.targets
                    self._found(self.targets())

    def _name(self, found: Found) -> str | None:
        labels = relabel({**_DEFAULT_LABELS, **found.labels}, self._config.relabel_configs)
        return target_name(labels) if labels else None

    def _odd_addresses(self, targets: Iterable[Found]) -> str:
        """Say which targets lead to no page; they are left out."""
        names = (self._name(one) for one in targets)
        odd = [without_password(name) for name in names if name and not is_address(name)]
        return f"{len(odd)} left out that are no host:port, such as {odd[0][:100]!r}" if odd else ""

    def _note(self, name: str, problem: str) -> None:
        before = self._problems.get(name, "")
        self._problems[name] = problem
        if problem and not before:
            log.warning(
                "discovery fails, the last targets stand",
                deployment=self._config.name,
                discovery=name,
                problem=problem,
            )
        elif before and not problem:
            log.info("discovery is well", deployment=self._config.name, discovery=name)


def _page(name: str) -> tuple[str, ...]:
    """Return what is the same for two ways to write one page's address."""
    url = metrics_url(name)
    parts = urlsplit(url)
    return parts.scheme, host_and_port(url), parts.path, parts.query
