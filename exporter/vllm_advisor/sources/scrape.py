"""Fetches one engine's page, and names what came of it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum

import aiohttp

__all__ = ["Fetched", "Outcome", "fetch_body", "fetch_page", "new_session"]

# The page is asked for as classic text: vLLM's exact /metrics gives nothing else, and servers that negotiate
# answer OpenMetrics with names that clash (prometheus/client_python issue 1177).
_HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "vllm-advisor"}
_REDIRECTS = 5
_GZIP = b"\x1f\x8b"
_NO_PAGE = (b"<", b"{", b"[")
"""How HTML and JSON begin; a metrics page never does, so that its reader names them."""


class Outcome(StrEnum):
    """What came of one scrape: the label ``outcome`` of ``vllm_advisor_scrapes_total``."""

    OK = "ok"
    DOWN = "down"
    TIMEOUT = "timeout"
    HTTP_ERROR = "http_error"
    REDIRECT = "redirect"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    NOT_METRICS = "not_metrics"
    NO_VLLM_FAMILIES = "no_vllm_families"
    ROUTER = "router"
    MALFORMED = "malformed"
    DUPLICATE_SERIES = "duplicate_series"
    SEVERAL_ENGINES = "several_engines"
    RESTARTED = "restarted"
    FAILED = "failed"


WELL = frozenset({Outcome.OK, Outcome.RESTARTED})
"""After these there is nothing to mend."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page's bytes, or why there are none.

    Args:
        outcome: ``OK`` when there is a page.
        text: the page; None otherwise.
        detail: what was seen, for the log.
    """

    outcome: Outcome
    text: bytes | None = None
    detail: str = ""


def new_session() -> aiohttp.ClientSession:
    """Open the one HTTP session of the daemon, with a kept connection for each engine."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=75, ttl_dns_cache=30)
    return aiohttp.ClientSession(
        connector=connector, headers=_HEADERS, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    )


async def fetch_page(
    session: aiohttp.ClientSession, url: str, *, timeout_seconds: float, limit_bytes: int
) -> Fetched:
    """Fetch a metrics page; never raises but for cancellation.

    Args:
        session: from `new_session`.
        url: the page's address.
        timeout_seconds: for the whole exchange.
        limit_bytes: a longer page is given up as soon as that is seen.
    """
    fetched = await fetch_body(session, url, timeout_seconds=timeout_seconds, limit_bytes=limit_bytes)
    if fetched.text and not fetched.text.endswith(b"\n") and not fetched.text.lstrip().startswith(_NO_PAGE):
        return Fetched(Outcome.TRUNCATED, detail="the last line does not end")
    return fetched


async def fetch_body(
    session: aiohttp.ClientSession, url: str, *, timeout_seconds: float, limit_bytes: int
) -> Fetched:
    """Fetch whatever an address answers, under the same limits as `fetch_page`."""
    timeout = aiohttp.ClientTimeout(total=timeout_seconds)
    try:
        async with session.get(url, timeout=timeout, max_redirects=_REDIRECTS) as response:
            if response.status != 200:
                return Fetched(Outcome.HTTP_ERROR, detail=f"status {response.status}")
            return await _body(response, limit_bytes)
    except TimeoutError:
        return Fetched(Outcome.TIMEOUT, detail=f"no whole answer within {timeout_seconds:g} s")
    except aiohttp.TooManyRedirects:
        return Fetched(Outcome.REDIRECT, detail=f"more than {_REDIRECTS} redirects")
    except aiohttp.ClientPayloadError as error:
        return Fetched(Outcome.TRUNCATED, detail=_short(error))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Fetched(Outcome.DOWN, detail=_short(error))


async def _body(response: aiohttp.ClientResponse, limit_bytes: int) -> Fetched:
    too_large = Fetched(Outcome.TOO_LARGE, detail=f"more than {limit_bytes} bytes")
    if (response.content_length or 0) > limit_bytes:
        response.close()
        return too_large
    chunks, size_bytes = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            response.close()
            return too_large
    body = b"".join(chunks)
    return _unpacked(body, limit_bytes) if body.startswith(_GZIP) else Fetched(Outcome.OK, body)


def _unpacked(body: bytes, limit_bytes: int) -> Fetched:
    """Unpack what a proxy packed unasked, no further than the limit."""
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        text = unpacking.decompress(body, limit_bytes + 1)
    except zlib.error as error:
        return Fetched(Outcome.TRUNCATED, detail=f"no whole gzip: {_short(error)}")
    if len(text) > limit_bytes:
        return Fetched(Outcome.TOO_LARGE, detail=f"more than {limit_bytes} bytes, unpacked")
    if not unpacking.eof:
        return Fetched(Outcome.TRUNCATED, detail="the gzip does not end")
    return Fetched(Outcome.OK, text)


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
