"""The daemon's doors over HTTP."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from vllm_advisor.web import doors, pages
from vllm_advisor.web.api import api_routes
from vllm_advisor.web.api.problem import answer_problems
from vllm_advisor.web.listener import path_prefix
from vllm_advisor.web.metrics import RecommendationCollector
from vllm_advisor.web.security import add_security_headers, refuse_other_sites
from vllm_advisor.web.served import SERVED, Served
from vllm_advisor.web.targets import TargetCollector

__all__ = ["build_app"]

_STATIC = Path(__file__).parent / "static"
_LARGEST_UPLOAD_BYTES = 1_000_000


def build_app(served: Served) -> web.Application:
    """Build the application that serves metrics, API, status page and management doors."""
    app = web.Application(
        middlewares=[answer_problems, refuse_other_sites], client_max_size=_LARGEST_UPLOAD_BYTES
    )
    app[SERVED] = served
    app.on_response_prepare.append(add_security_headers)
    served.telemetry.registry.register(
        RecommendationCollector(served.recommendations, served.changed_seconds)
    )
    served.telemetry.registry.register(TargetCollector(served.targets))
    prefix = path_prefix(served.options.external_url)
    app.add_routes(_routes(served, prefix))
    app.add_routes(api_routes(prefix))
    if prefix:
        app.router.add_get("/", pages.to_prefix)
        app.router.add_get(prefix, pages.to_prefix)
    return app


def _routes(served: Served, prefix: str) -> list[web.AbstractRouteDef]:
    return [
        web.get(f"{prefix}/", pages.overview),
        web.get(f"{prefix}/deployments/{{name}}", pages.deployment),
        web.get(f"{prefix}/targets", pages.targets),
        web.get(f"{prefix}/config", pages.configuration),
        web.static(f"{prefix}/static", _STATIC),
        web.get(f"{prefix}/metrics", make_aiohttp_handler(served.telemetry.registry)),
        web.get(f"{prefix}/-/healthy", doors.healthy),
        web.get(f"{prefix}/-/ready", doors.ready),
        web.post(f"{prefix}/-/reload", doors.reload),
        web.put(f"{prefix}/-/reload", doors.reload),
    ]
