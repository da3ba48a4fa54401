"""The engine behind an endpoint, as its metrics page shows it while load runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp

from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.page import PageReader

__all__ = ["Busy", "busy", "peak_while"]

_TIMEOUT = aiohttp.ClientTimeout(total=5.0)


@dataclass(frozen=True, slots=True)
class Busy:
    """Requests on all engines of a page."""

    running: float
    waiting: float


async def busy(
    session: aiohttp.ClientSession, endpoint: Endpoint, reader: PageReader | None = None
) -> Busy | None:
    """Return what runs and waits on the server, None where it has no page that says so.

    Args:
        session: to ask with.
        endpoint: whose page.
        reader: one that read the page before is quicker, and takes less of a busy machine.
    """
    url = f"{endpoint.base}/metrics"
    try:
        async with session.get(url, headers=endpoint.headers, ssl=endpoint.tls, timeout=_TIMEOUT) as response:
            page = (reader or PageReader()).read(await response.read())
    except (aiohttp.ClientError, TimeoutError):
        return None
    running = [sample.running for sample in page.engines if sample.running is not None]
    if not running:
        return None
    return Busy(sum(running), sum(sample.waiting or 0.0 for sample in page.engines))


async def peak_while(session: aiohttp.ClientSession, endpoint: Endpoint, seen: list[Busy]) -> None:
    """Look once a second until cancelled, and note what was seen."""
    reader = PageReader()
    while True:
        await asyncio.sleep(1.0)
        found = await busy(session, endpoint, reader)
        if found is not None:
            seen.append(found)
