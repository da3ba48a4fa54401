"""A small OpenAI-compatible server that misbehaves on demand, on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKENS_PER_WORD = 3
FRAME_TOKENS = 40
"""What a prompt comes to: three tokens a word and forty of a template around them."""


@dataclass
class OpenAiServer:
    """Streams tokens at a pace that slows with the requests in flight, and counts what is under way.

    Args:
        base_seconds: pace alone.
        per_request_seconds: added for each request in flight.
        refuse_above: answers 429 beyond so many in flight.
        cap: runs so many at once, the others wait, and the metrics page says so.
        cut_every: breaks off every so many-th stream in its middle.
        reports_usage: whether the last event holds it.
        reports_finish: whether the last token's event says why it is the last.
        has_end_mark: whether a stream ends with its mark.
        longest_tokens: refuses with 400 what asks for more.
        longest_prompt_tokens: refuses with 400 a prompt of more.
        others: requests of somebody else, on the metrics page.
        api_key: answers 401 without it.
        refuses: parameters of a request that it answers 422 to.
        chunk_tokens: so many tokens come in one event.
        reasons: the first half of an output is reasoning, chats only.
        lists_models: whether ``/v1/models`` is there.
        is_chat_only: answers 404 to completions.
        fails: answers 500 to everything.
        breaks_with_an_error: every stream brings an error in its middle.
        tls: what it shows of itself.
    """

    base_seconds: float = 0.02
    per_request_seconds: float = 0.005
    refuse_above: int | None = None
    cap: int | None = None
    cut_every: int | None = None
    reports_usage: bool = True
    reports_finish: bool = True
    has_end_mark: bool = True
    longest_tokens: int | None = None
    longest_prompt_tokens: int | None = None
    others: int = 0
    api_key: str | None = None
    refuses: frozenset[str] = frozenset()
    chunk_tokens: int = 1
    reasons: bool = False
    lists_models: bool = True
    is_chat_only: bool = False
    fails: bool = False
    breaks_with_an_error: bool = False
    tls: ssl.SSLContext | None = None
    port: int = 0
    running: int = 0
    waiting: int = 0
    served: int = 0
    tpots: list[float] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    token_seconds: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def under_way(self) -> int:
        """Requests that it is serving or holding."""
        return self.running + self.waiting

    def application(self) -> web.Application:
        """Return its routes."""
        application = web.Application()
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_post("/v1/completions", self._complete)
        application.router.add_post("/v1/chat/completions", self._complete)
        return application

    async def _models(self, request: web.Request) -> web.Response:
        if not self.lists_models:
            raise web.HTTPNotFound
        if not self._is_known(request):
            return _error(401, "Unauthorized")
        return web.json_response({"data": [{"id": "tiny", "max_model_len": 4096}]})

    async def _metrics(self, _: web.Request) -> web.Response:
        labels = '{model_name="tiny",engine="0"}'
        lines = [
            "# TYPE vllm:num_requests_running gauge",
            f"vllm:num_requests_running{labels} {self.running + self.others}",
            "# TYPE vllm:num_requests_waiting gauge",
            f"vllm:num_requests_waiting{labels} {self.waiting}",
            "# TYPE vllm:generation_tokens_total counter",
            f"vllm:generation_tokens_total{labels} {self.served}",
        ]
        return web.Response(text="\n".join(lines) + "\n")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        refusal = self._refusal(request, body)
        if refusal is not None:
            return refusal
        self.waiting += 1
        try:
            while self.cap is not None and self.running >= self.cap:  # noqa: ASYNC110 - short queues
                await asyncio.sleep(0.002)
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self._stream(request, body)
        finally:
            self.running -= 1

    def _is_known(self, request: web.Request) -> bool:
        return self.api_key is None or request.headers.get("Authorization") == f"Bearer {self.api_key}"

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        if not self._is_known(request):
            return _error(401, "Unauthorized")
        if self.fails:
            return _error(500, "out of order")
        if self.is_chat_only and "messages" not in body:
            return _error(404, "Not Found")
        if unknown := self.refuses & body.keys():
            return _error(422, f"unknown parameter {min(unknown)}")
        if self.longest_tokens is not None and body["max_tokens"] > self.longest_tokens:
            return _error(
                400, f"max_tokens={body['max_tokens']} cannot be greater than {self.longest_tokens}"
            )
        if self.longest_prompt_tokens is not None and _prompt_tokens(body) > self.longest_prompt_tokens:
            return _error(400, "the prompt is too long")
        if self.refuse_above is not None and self.under_way >= self.refuse_above:
            return web.json_response({"error": "slow down"}, status=429, headers={"Retry-After": "0.05"})
        return None

    async def _stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.served += 1
        if "messages" in body:
            await self._event(response, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        started: list[float] = []
        asked = body["max_tokens"]
        cut = self.cut_every is not None and self.served % self.cut_every == 0
        for token in range(1, asked + 1):
            await asyncio.sleep(self.base_seconds + self.per_request_seconds * self.running)
            if cut and token > asked // 2:
                assert request.transport is not None
                request.transport.abort()
                return response
            if self.breaks_with_an_error and token > asked // 2:
                await self._event(response, {"error": {"message": "the engine died", "code": 500}})
                return response
            started.append(time.perf_counter())
            if token % self.chunk_tokens == 0 or token in {1, asked}:
                await self._event(response, {"choices": [self._choice(body, token)]})
        self.tpots.append((started[-1] - started[0]) / max(1, asked - 1))
        self.token_seconds += started
        self.prompt_tokens.append(_prompt_tokens(body))
        asks_usage = body.get("stream_options", {}).get("include_usage")
        if self.reports_usage and asks_usage:
            usage = {"prompt_tokens": _prompt_tokens(body), "completion_tokens": asked}
            await self._event(response, {"choices": [], "usage": usage})
        if self.has_end_mark:
            await response.write(b"data: [DONE]\n\n")
        return response

    def _choice(self, body: dict[str, Any], token: int) -> dict[str, Any]:
        is_last = self.reports_finish and token == body["max_tokens"]
        finish = {"finish_reason": "length" if is_last else None}
        if "messages" not in body:
            return {"text": "word "} | finish
        is_reasoning = self.reasons and token <= body["max_tokens"] // 2
        return {"delta": {"reasoning_content" if is_reasoning else "content": "word "}} | finish

    async def _event(self, response: web.StreamResponse, event: dict[str, object]) -> None:
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def _prompt_tokens(body: dict[str, Any]) -> int:
    text = body["messages"][0]["content"] if "messages" in body else body["prompt"]
    return FRAME_TOKENS + TOKENS_PER_WORD * len(text.split())


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


@contextmanager
def serving(server: OpenAiServer) -> Iterator[OpenAiServer]:
    """Run a server on a free port of the loopback until the block ends."""
    ready = threading.Event()
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server.tls).start()
        server.port = runner.addresses[0][1]
        ends.append(lambda: loop.call_soon_threadsafe(ended.set))
        ready.set()
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        ends[0]()
        thread.join()
