"""One streamed request to an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import Any

import aiohttp

from vllm_advisor.addresses import base_url, without_password
from vllm_advisor.errors import EvidenceError, InputError

__all__ = ["Endpoint", "Outcome", "Timed", "stream"]

_BUSY_STATUSES = {429, 503}
_MESSAGE_CHARACTERS = 200
_LINE_BYTES = 2**20


class Outcome(StrEnum):
    """How a request ended."""

    DONE = "done"
    RATE_LIMITED = "rate_limited"
    BROKEN = "broken"
    """The connection or the stream broke, or the server failed."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and as what.

    Args:
        url: the server, with or without ``/v1``.
        model: the model's name.
        chat: chat completions rather than completions.
        api_key: sent as a bearer token; never shown.
        ignore_eos: ask for outputs of exactly the length asked (vLLM's own parameter).
    """

    url: str
    model: str
    chat: bool = False
    api_key: str | None = None
    ignore_eos: bool = True

    @property
    def base(self) -> str:
        """The address under which ``/v1`` and ``/metrics`` stand."""
        return base_url(self.url.rstrip("/").removesuffix("/v1"))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    @property
    def requests_url(self) -> str:
        """The address that requests are sent to."""
        return f"{self.base}/v1/{'chat/completions' if self.chat else 'completions'}"

    def body(self, prompt: str, output_tokens: int) -> dict[str, Any]:
        """Return a request's body: streamed, with usage at the end."""
        content = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        fixed = {"ignore_eos": True} if self.ignore_eos else {}
        options = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": output_tokens}
        return {"model": self.model, **content, **options, **fixed}


@dataclass(frozen=True, slots=True)
class Timed:
    """One request as the client saw it.

    Args:
        outcome: how it ended; what follows is only told of those done.
        start_seconds: when it was sent, on the client's monotonic clock.
        first_seconds: when its first token came.
        last_seconds: when its last token came.
        output_tokens: by the endpoint's usage, else the number of chunks.
        prompt_tokens: by the endpoint's usage, None without.
        retry_after_seconds: what a refusing server asked for.
    """

    outcome: Outcome
    start_seconds: float
    first_seconds: float = 0.0
    last_seconds: float = 0.0
    output_tokens: int = 0
    prompt_tokens: int | None = None
    retry_after_seconds: float | None = None

    @property
    def tpot_seconds(self) -> float | None:
        """Time per output token after the first, None for a request of one token."""
        if self.output_tokens < 2:
            return None
        return (self.last_seconds - self.first_seconds) / (self.output_tokens - 1)

    @property
    def ttft_seconds(self) -> float:
        """Time to first token."""
        return self.first_seconds - self.start_seconds


async def stream(
    session: aiohttp.ClientSession, endpoint: Endpoint, prompt: str, output_tokens: int
) -> Timed:
    """Send one request and time its tokens; a cancelled one is closed, which ends it on the server too.

    Raises:
        InputError: the server refuses the request for what it is (4xx).
        EvidenceError: the server cannot be reached at all.
    """
    start = perf_counter()
    body = endpoint.body(prompt, output_tokens)
    try:
        async with session.post(endpoint.requests_url, json=body, headers=endpoint.headers) as response:
            if response.status in _BUSY_STATUSES:
                return Timed(Outcome.RATE_LIMITED, start, retry_after_seconds=_retry_after(response))
            if 400 <= response.status < 500:
                raise await _refusal(response, endpoint)
            if response.status != 200:
                return Timed(Outcome.BROKEN, start)
            return await _timed(response, start)
    except aiohttp.ClientConnectorError as error:
        shown = without_password(endpoint.base)
        raise EvidenceError(f"{shown} cannot be reached: {error.strerror or 'refused'}") from error
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return Timed(Outcome.BROKEN, start)


async def _timed(response: aiohttp.ClientResponse, start: float) -> Timed:
    first = last = 0.0
    chunks, usage = 0, None
    async for event in _events(response):
        if event.get("error"):
            return Timed(Outcome.BROKEN, start)
        usage = event.get("usage") or usage
        if event.get("choices") and _has_token(event["choices"][0]):
            last = perf_counter()
            first = first or last
            chunks += 1
    if not chunks:
        return Timed(Outcome.BROKEN, start)
    counted = usage or {}
    return Timed(
        Outcome.DONE,
        start,
        first,
        last,
        int(counted.get("completion_tokens") or chunks),
        counted.get("prompt_tokens"),
    )


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """Yield a stream's JSON events up to its end mark.

    Raises:
        ValueError: the stream ended before its end mark, or holds no JSON.
    """
    while line := await response.content.readline():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:"):
            continue
        if data == b"[DONE]":
            return
        event = json.loads(data)
        if isinstance(event, dict):
            yield event
    raise ValueError("the stream was cut")


def _has_token(choice: dict[str, Any]) -> bool:
    """Tell whether a chunk brings a token, with text or without; a chat's opening chunk has a role only."""
    delta = choice.get("delta") or {}
    parts = (choice.get("text"), delta.get("content"), delta.get("reasoning_content"), delta.get("reasoning"))
    return any(parts) or ("role" not in delta and any(part is not None for part in parts))


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return None


async def _refusal(response: aiohttp.ClientResponse, endpoint: Endpoint) -> InputError:
    text = (await response.content.read(_LINE_BYTES)).decode(errors="replace")
    try:
        document = json.loads(text)
        error = document.get("error", document)
        text = str(error.get("message", text) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    message = " ".join(text.split())[:_MESSAGE_CHARACTERS]
    place = without_password(endpoint.requests_url)
    return InputError(f"answers {response.status}: {message or response.reason}", path=place)
