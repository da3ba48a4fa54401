"""Targets from a server that lists them as JSON (``http_sd_configs``)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import aiohttp

from vllm_advisor.config_discovery import HttpSdConfig
from vllm_advisor.sources.discovery.found import Found, Listing, polled, targets_of_groups
from vllm_advisor.sources.http_client import AnswerError, HttpClient

__all__ = ["discover"]

_LIMIT_BYTES = 64_000_000


def discover(config: HttpSdConfig, session: aiohttp.ClientSession) -> AsyncGenerator[Listing, None]:
    """Ask every refresh interval."""
    client = HttpClient(session, config)

    async def fetch() -> list[Found]:
        answer = await client.get(config.url, limit_bytes=_LIMIT_BYTES)
        try:
            return targets_of_groups(json.loads(answer), {"__meta_url": config.url})
        except (ValueError, RecursionError) as error:
            raise AnswerError(str(error)) from error

    return polled(fetch, config.refresh_interval_seconds)
