"""What `sweep` asks of servers before and after: the model's name, whether others are served, the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import aiohttp

from vllm_advisor.addresses import without_password
from vllm_advisor.errors import EvidenceError, InputError
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.watch import Busy, busy

__all__ = ["find_endpoint", "hand_over", "refuse_when_busy"]

_TIMEOUT = aiohttp.ClientTimeout(total=20.0)
_Answer = TypeVar("_Answer")


def find_endpoint(endpoint: Endpoint) -> tuple[Endpoint, int | None]:
    """Return an endpoint with its model's name, and the longest request it takes where it says so.

    Raises:
        InputError: it lists no such model.
        EvidenceError: it cannot be reached.
    """
    models = _asked(_models(endpoint), endpoint.base)
    known = [model for model in models if endpoint.model in {"", model.get("id")}]
    if not known and (models or not endpoint.model):
        listed = ", ".join(str(model.get("id")) for model in models) or "none"
        raise InputError(f"the endpoint serves no such model; it lists: {listed}", key="--model")
    model = known[0] if known else {"id": endpoint.model}
    longest = model.get("max_model_len")
    return replace(endpoint, model=str(model["id"])), longest if isinstance(longest, int) else None


def refuse_when_busy(endpoint: Endpoint) -> None:
    """Refuse to load an engine that serves other traffic.

    Raises:
        EvidenceError: it runs or holds requests.
    """
    found = _asked(_busy(endpoint), endpoint.base)
    if found is not None and found.running + found.waiting > 0:
        serving = f"{found.running:g} running and {found.waiting:g} waiting"
        raise EvidenceError(f"the engine serves other traffic ({serving}); --force sweeps all the same")


def hand_over(document: dict[str, Any], daemon: str, deployment: str) -> None:
    """Give a sweep to a running daemon.

    Raises:
        EvidenceError: it cannot be reached, or refuses.
    """
    _asked(_post(document, f"{daemon.rstrip('/')}/api/v1/deployments/{deployment}/sweep"), daemon)


def _asked(question: Coroutine[None, None, _Answer], url: str) -> _Answer:
    shown = without_password(url)
    try:
        return asyncio.run(question)
    except aiohttp.ClientConnectorError as error:
        raise EvidenceError(f"{shown} cannot be reached: {error.strerror or 'refused'}") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EvidenceError(f"{shown} gives no answer: {error or 'timed out'}") from error


async def _models(endpoint: Endpoint) -> list[dict[str, Any]]:
    url = f"{endpoint.base}/v1/models"
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        session.get(url, headers=endpoint.headers) as response,
    ):
        if response.status != 200:
            return []
        try:
            models = (await response.json(content_type=None))["data"]
        except (ValueError, KeyError, TypeError):
            return []
        return [model for model in models if isinstance(model, dict) and model.get("id")]


async def _busy(endpoint: Endpoint) -> Busy | None:
    async with aiohttp.ClientSession() as session:
        return await busy(session, endpoint)


async def _post(document: dict[str, Any], url: str) -> None:
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        session.post(url, json=document) as response,
    ):
        if response.status >= 400:
            text = " ".join((await response.text()).split())[:200]
            raise EvidenceError(f"the daemon answers {response.status}: {text}")
