"""Follows one deployment's discoveries: which targets there are now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import aiohttp
import structlog

from vllm_advisor.addresses import metrics_url
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.sources.discovery import Found, Listing, listings, relabel, target_name
from vllm_advisor.sources.engine_facts import EngineFacts

__all__ = ["TargetFinder"]

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
        urls: set[str] = set()
        for one in found:
            labels = relabel(one.labels, self._config.relabel_configs)
            name = target_name(labels) if labels else None
            if name and (url := metrics_url(name)) not in urls:
                urls.add(url)
                names[name] = one.facts
        return names

    def close(self) -> None:
        """Stop to discover."""
        for task in self._following:
            task.cancel()

    async def _follow(self, name: str, lists: AsyncGenerator[Listing, None]) -> None:
        async with aclosing(lists) as following:
            async for listing in following:
                self._note(name, listing.problem)
                if listing.targets is not None and listing.targets != self._lists.get(name):
                    self._lists[name] = listing.targets
                    self._found(self.targets())

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
