"""The daemon's doors over HTTP."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from vllm_advisor.web.metrics import RecommendationCollector
from vllm_advisor.web.recommendation_json import document
from vllm_advisor.web.served import Served
from vllm_advisor.web.status import status_page
from vllm_advisor.web.targets import TargetCollector

__all__ = ["build_app"]

_SERVED = web.AppKey("served", Served)


def build_app(served: Served) -> web.Application:
    """Build the application that serves metrics, API, status page and management doors."""
    app = web.Application()
    app[_SERVED] = served
    served.telemetry.registry.register(
        RecommendationCollector(served.recommendations, served.changed_seconds)
    )
    served.telemetry.registry.register(TargetCollector(served.targets))
    app.add_routes(
        [
            web.get("/", _status),
            web.get("/metrics", make_aiohttp_handler(served.telemetry.registry)),
            web.get("/api/v1/recommendations", _recommendations),
            web.get("/targets", _targets),
            web.get("/-/healthy", _healthy),
            web.get("/-/ready", _ready),
            web.post("/-/reload", _reload),
            web.put("/-/reload", _reload),
        ]
    )
    return app


async def _status(request: web.Request) -> web.Response:
    served = request.app[_SERVED]
    page = status_page(list(served.recommendations().values()), served.targets())
    return web.Response(text=page, content_type="text/html")


async def _recommendations(request: web.Request) -> web.Response:
    return _json(document(list(request.app[_SERVED].recommendations().values())))


async def _targets(request: web.Request) -> web.Response:
    return _json({"targets": request.app[_SERVED].targets()})


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="vllm-advisor is healthy.\n")


async def _ready(request: web.Request) -> web.Response:
    if request.app[_SERVED].ready():
        return web.Response(text="vllm-advisor is ready.\n")
    return web.Response(status=503, text="vllm-advisor has not evaluated its deployments yet.\n")


async def _reload(request: web.Request) -> web.Response:
    served = request.app[_SERVED]
    if not served.lifecycle:
        return web.Response(status=403, text="Lifecycle API is off: start with --web.enable-lifecycle.\n")
    problem = await served.reload()
    if problem:
        return web.Response(status=500, text=f"failed to reload config: {problem}\n")
    return web.Response(text="reloaded\n")


def _json(value: dict[str, Any]) -> web.Response:
    return web.Response(text=json.dumps(value, allow_nan=False), content_type="application/json")
