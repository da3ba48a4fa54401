"""The doors that Prometheus users expect: health, readiness, reload, configuration, targets as JSON."""

from __future__ import annotations

import json
import re

import yaml
from aiohttp import web

from vllm_advisor.config import AdvisorConfig
from vllm_advisor.web.served import SERVED

__all__ = ["configuration_text", "healthy", "ready", "reload"]

_HIDDEN = "<secret>"
_SECRET_WORDS = ("password", "secret", "token", "credentials", "authorization", "api_key")
_NOT_SECRET = ("_tokens",)
_ADDRESSED = re.compile(r"^(?:(\w+://)[^/\s]*|[^/\s@]+:[^/\s]*)@(?=[^/\s])")
"""User and password before a host."""


async def healthy(_request: web.Request) -> web.Response:
    """Answer that the daemon runs."""
    return web.Response(text="vllm-advisor is healthy.\n")


async def ready(request: web.Request) -> web.Response:
    """Answer whether the first recommendations stand."""
    if request.app[SERVED].ready():
        return web.Response(text="vllm-advisor is ready.\n")
    return web.Response(status=503, text="vllm-advisor has not evaluated its deployments yet.\n")


async def reload(request: web.Request) -> web.Response:
    """Load the configuration again, where that is allowed."""
    served = request.app[SERVED]
    if not served.options.lifecycle:
        return web.Response(status=403, text="Lifecycle API is off: start with --web.enable-lifecycle.\n")
    problem = await served.reload()
    if problem:
        return web.Response(status=500, text=f"failed to reload config: {problem}\n")
    return web.Response(text="reloaded\n")


def configuration_text(config: AdvisorConfig) -> str:
    """Write the configuration in force as YAML, secrets hidden."""
    document = json.loads(config.model_dump_json(by_alias=True, exclude_defaults=True))
    text: str = yaml.safe_dump(_without_secrets(document), sort_keys=False, allow_unicode=True)
    return text


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {key: _HIDDEN if _is_secret(key) else _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return _ADDRESSED.sub(rf"\g<1>{_HIDDEN}@", value) if isinstance(value, str) else value


def _is_secret(key: str) -> bool:
    return any(word in key for word in _SECRET_WORDS) and not key.endswith(_NOT_SECRET)
