"""A small OpenAI-compatible server that misbehaves on demand, on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web


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
        longest_tokens: refuses with 400 what asks for more.
        others: requests of somebody else, on the metrics page.
    """

    base_seconds: float = 0.004
    per_request_seconds: float = 0.001
    refuse_above: int | None = None
    cap: int | None = None
    cut_every: int | None = None
    reports_usage: bool = True
    longest_tokens: int | None = None
    others: int = 0
    port: int = 0
    running: int = 0
    waiting: int = 0
    served: int = 0
    tpots: list[float] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    uploaded: list[dict[str, object]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

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
        application.router.add_post("/api/v1/deployments/chat/sweep", self._upload)
        return application

    async def _models(self, _: web.Request) -> web.Response:
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

    async def _upload(self, request: web.Request) -> web.Response:
        self.uploaded.append(await request.json())
        return web.json_response({})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        if self.longest_tokens is not None and body["max_tokens"] > self.longest_tokens:
            message = f"max_tokens={body['max_tokens']} cannot be greater than {self.longest_tokens}"
            return web.json_response({"error": {"message": message}}, status=400)
        if self.refuse_above is not None and self.under_way >= self.refuse_above:
            return web.json_response({"error": "slow down"}, status=429, headers={"Retry-After": "0.05"})
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

    async def _stream(self, request: web.Request, body: dict[str, int]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.served += 1
        started: list[float] = []
        cut = self.cut_every is not None and self.served % self.cut_every == 0
        for token in range(body["max_tokens"]):
            await asyncio.sleep(self.base_seconds + self.per_request_seconds * self.running)
            if cut and token >= body["max_tokens"] // 2:
                assert request.transport is not None
                request.transport.abort()
                return response
            await self._event(response, {"choices": [{"text": "word "}]})
            started.append(time.perf_counter())
        self.tpots.append((started[-1] - started[0]) / max(1, len(started) - 1))
        if self.reports_usage:
            usage = {
                "prompt_tokens": 3 * len(str(body.get("prompt", "")).split()),
                "completion_tokens": token + 1,
            }
            await self._event(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _event(self, response: web.StreamResponse, event: dict[str, object]) -> None:
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


@contextmanager
def serving(server: OpenAiServer) -> Iterator[OpenAiServer]:
    """Run a server on a free port of the loopback until the block ends."""
    ready = threading.Event()
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
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
