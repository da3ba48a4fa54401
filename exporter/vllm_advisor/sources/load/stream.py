"""One streamed request, timed token by token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import Any

import aiohttp
import msgspec

from vllm_advisor.addresses import without_password
from vllm_advisor.errors import EvidenceError, InputError
from vllm_advisor.sources.load.endpoint import Endpoint

__all__ = ["Outcome", "RefusedError", "Timed", "said", "stream"]

_BUSY_STATUSES = {429, 503}
_MESSAGE_CHARACTERS = 200
_ANSWER_BYTES = 2**20
_AT_ITS_LIMIT = "length"
_CUT = "a stream that was cut"
_NO_STREAM = "an answer that is no stream of tokens"


class RefusedError(InputError):
    """The server refuses a request for what it is.

    Args:
        status: of the answer, 4xx.
    """

    def __init__(self, problem: str, *, path: str, status: int) -> None:
        super().__init__(problem, path=path)
        self.status = status


class Outcome(StrEnum):
    """How a request ended."""

    DONE = "done"
    RATE_LIMITED = "rate_limited"
    BROKEN = "broken"
    """The connection or the stream broke, or the server failed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One request as the client saw it.

    Args:
        outcome: how it ended; the times and tokens are only told of those done.
        start_seconds: when it was sent, on the client's monotonic clock.
        first_seconds: when its first token came.
        last_seconds: when its last token came.
        output_tokens: by the endpoint's usage; else what was asked for, of an output that ran to its limit;
            else the number of chunks.
        prompt_tokens: by the endpoint's usage, None without.
        retry_after_seconds: what a refusing server asked for.
        problem: what went wrong, of one that is not done.
    """

    outcome: Outcome
    start_seconds: float
    first_seconds: float = 0.0
    last_seconds: float = 0.0
    output_tokens: int = 0
    prompt_tokens: int | None = None
    retry_after_seconds: float | None = None
    problem: str = ""

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
        RefusedError: the server refuses the request for what it is.
        EvidenceError: the server cannot be reached at all.
    """
    start = perf_counter()
    body, url = endpoint.body(prompt, output_tokens), endpoint.requests_url
    try:
        async with session.post(url, json=body, headers=endpoint.headers, ssl=endpoint.tls) as response:
            if response.status == 200:
                with _broken_off_when_cancelled(response):
                    return await _timed(response, start, output_tokens)
            problem = f"answers {response.status}: {await said(response)}"
    except aiohttp.ClientConnectorError as error:
        place = without_password(endpoint.base)
        raise EvidenceError(f"{place} cannot be reached: {error.strerror or error}") from error
    except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
        return Timed(Outcome.BROKEN, start, problem=_cause(error))
    if response.status in _BUSY_STATUSES:
        retry_seconds = _retry_after_seconds(response)
        return Timed(Outcome.RATE_LIMITED, start, retry_after_seconds=retry_seconds, problem=problem)
    if 400 <= response.status < 500:
        raise RefusedError(problem, path=without_password(url), status=response.status)
    return Timed(Outcome.BROKEN, start, problem=problem)


@contextmanager
def _broken_off_when_cancelled(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Break the connection off at once on cancellation; a polite close of TLS would wait for the server."""
    try:
        yield
    except asyncio.CancelledError:
        if response.connection and response.connection.transport:
            response.connection.transport.abort()
        raise


async def said(response: aiohttp.ClientResponse) -> str:
    """Return what a refusing server said, in one short line."""
    text = (await response.content.read(_ANSWER_BYTES)).decode(errors="replace")
    try:
        document = json.loads(text)
        error = document.get("error", document.get("detail", document))
        text = str(error.get("message", text) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        pass
    return " ".join(text.split())[:_MESSAGE_CHARACTERS] or str(response.reason)


class _Delta(msgspec.Struct):
    role: Any = None
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None


class _Choice(msgspec.Struct):
    text: Any = None
    delta: _Delta | None = None
    finish_reason: str | None = None

    def has_token(self) -> bool:
        """Tell whether it brings a token, with text or without; a chat's opening chunk has a role only."""
        delta = self.delta or _Delta()
        parts = (self.text, delta.content, delta.reasoning, delta.reasoning_content)
        return any(parts) or (delta.role is None and any(part is not None for part in parts))


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_EVENTS = msgspec.json.Decoder(_Event)


async def _timed(response: aiohttp.ClientResponse, start: float, asked_tokens: int) -> Timed:
    first = last = 0.0
    chunks, usage, finish = 0, _Usage(), None
    async for event in _events(response):
        usage = event.usage or usage
        for choice in event.choices or ():
            finish = choice.finish_reason or finish
            if choice.has_token():
                last = perf_counter()
                first = first or last
                chunks += 1
    if not chunks:
        raise ValueError("a stream without a token")
    counted = asked_tokens if finish == _AT_ITS_LIMIT else chunks
    return Timed(Outcome.DONE, start, first, last, usage.completion_tokens or counted, usage.prompt_tokens)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[_Event]:
    """Yield a stream's events up to its end mark, or to its end once the output is said to be finished.

    Raises:
        ValueError: the stream ended before that, or brings an error.
        msgspec.MsgspecError: it brings something else than events.
    """
    is_finished, problem = False, _NO_STREAM
    while line := await response.content.readline():
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        event = _EVENTS.decode(data)
        if event.error:
            raise ValueError("a stream that brings an error")
        is_finished = is_finished or any(choice.finish_reason for choice in event.choices or ())
        problem = _CUT
        yield event
    if not is_finished:
        raise ValueError(problem)


def _cause(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "silence"
        case aiohttp.ClientError():
            return _CUT
        case msgspec.MsgspecError():
            return _NO_STREAM
    return str(error)


def _retry_after_seconds(response: aiohttp.ClientResponse) -> float | None:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return None
