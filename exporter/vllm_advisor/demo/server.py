"""The simulated engine on a loopback port, at the pace of a clock, with its traffic and its access log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
from aiohttp import web

from vllm_advisor.clock import SteadyClock
from vllm_advisor.demo.access_log import AccessLog
from vllm_advisor.demo.engine import Engine, EngineSettings, StepLaw
from vllm_advisor.demo.page import CONTENT_TYPE, render_page
from vllm_advisor.demo.traffic import Swing, Traffic

__all__ = ["serve_engine"]

VLLM_VERSION = "0.32.0"

_TICK_SECONDS = 0.02
_JITTER_RATIO = 0.03
_QUICK, _SHORT_DAY = StepLaw(), Swing()


class SimulatedServer:
    """An engine, what it is asked, and what a client can fetch of it.

    Args:
        settings: the engine's flags and pool.
        access_log_path: where its access log goes.
        law: how long its steps take.
        swing: the rate at which requests come.
        random: what arrivals, lengths and step times are drawn with.
    """

    def __init__(
        self,
        settings: EngineSettings,
        access_log_path: Path,
        law: StepLaw,
        swing: Swing,
        random: np.random.Generator,
    ) -> None:
        self._clock = SteadyClock()
        self._start_seconds = start_seconds = self._clock.now_seconds()
        self._settings = settings
        self._log = AccessLog(access_log_path, settings.model_name)
        self._traffic = Traffic(swing, random, start_seconds)
        self._engine = Engine(
            settings, law, lambda: 1 + _JITTER_RATIO * random.standard_normal(), start_seconds
        )

    def catch_up(self) -> None:
        """Simulate up to now."""
        now_seconds = self._clock.now_seconds()
        for request in self._traffic.arrivals_until(now_seconds):
            self._engine.submit(request)
        self._log.write(self._engine.advance_to(now_seconds))

    async def keep_up(self) -> None:
        """Catch up at every tick until cancelled."""
        while True:
            self.catch_up()
            await asyncio.sleep(_TICK_SECONDS)

    def application(self) -> web.Application:
        """Return the routes of a vLLM server that the advisor asks for."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.get("/version", self._version),
                web.get("/health", self._health),
            ]
        )
        return app

    async def _metrics(self, _: web.Request) -> web.Response:
        self.catch_up()
        return web.Response(body=render_page(self._engine), headers={"Content-Type": CONTENT_TYPE})

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._settings.model_name,
            "object": "model",
            "created": int(self._start_seconds),
            "owned_by": "vllm",
            "root": self._settings.model_name,
            "parent": None,
            "max_model_len": self._settings.max_model_len_tokens,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": VLLM_VERSION})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()


@asynccontextmanager
async def serve_engine(
    settings: EngineSettings,
    access_log_path: Path,
    *,
    law: StepLaw = _QUICK,
    swing: Swing = _SHORT_DAY,
    seed: int = 0,
) -> AsyncIterator[str]:
    """Run a simulated engine on a free loopback port while the context lasts, and give its ``host:port``."""
    server = SimulatedServer(settings, access_log_path, law, swing, np.random.default_rng(seed))
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    clock = asyncio.create_task(server.keep_up())
    try:
        await site.start()
        host, port = runner.addresses[0]
        yield f"{host}:{port}"
    finally:
        clock.cancel()
        with suppress(asyncio.CancelledError):
            await clock
        await runner.cleanup()
