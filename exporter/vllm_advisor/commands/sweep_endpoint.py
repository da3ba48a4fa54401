"""What `sweep` asks of servers before and after: the model's name, whether others are served, the daemon."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp

from vllm_advisor.addresses import without_password
from vllm_advisor.errors import EvidenceError, InputError
from vllm_advisor.sources.load.endpoint import Endpoint
from vllm_advisor.sources.load.stream import said
from vllm_advisor.sources.load.watch import Busy, busy

__all__ = ["Daemon", "find_endpoint", "hand_over", "hint", "refuse_daemon", "refuse_when_busy"]

_TIMEOUT = aiohttp.ClientTimeout(total=20.0)
_UNTRUSTED = "its certificate is not trusted; --ca-file names its authority"
_HINTS = {
    401: "an API key is given by --api-key-env",
    403: "an API key is given by --api-key-env",
    404: "--chat asks for chat completions, --model for another model",
}
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon, and whose sweep it is given.

    Args:
        url: where it listens.
        deployment: by name.
        tls: whom to trust.
    """

    url: str
    deployment: str
    tls: ssl.SSLContext | bool = True


def hint(status: int) -> str:
    """Return what may help where an endpoint refuses with a status, with its separator; empty for most."""
    return f"; {_HINTS[status]}" if status in _HINTS else ""


def find_endpoint(endpoint: Endpoint) -> tuple[Endpoint, int | None]:
    """Return an endpoint with its model's name, and the longest request it takes where it says so.

    Raises:
        InputError: it lists no such model, or none and the flags name none.
        EvidenceError: it cannot be reached.
    """
    models = _asked(_models(endpoint), endpoint.base)
    known = [model for model in models if endpoint.model in {"", model["id"]}]
    if models and not known:
        listed = ", ".join(str(model["id"]) for model in models)
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


def refuse_daemon(daemon: Daemon) -> None:
    """Refuse a daemon that would not take the sweep once it is measured.

    Raises:
        EvidenceError: it cannot be reached, or refuses.
    """
    _asked(_post(None, daemon), daemon.url)


def hand_over(document: dict[str, Any], daemon: Daemon) -> None:
    """Give a sweep to a running daemon.

    Raises:
        EvidenceError: it cannot be reached, or refuses.
    """
    _asked(_post(document, daemon), daemon.url)


def _asked(question: Coroutine[None, None, _Answer], url: str) -> _Answer:
    shown = without_password(url)
    try:
        return asyncio.run(question)
    except aiohttp.ClientConnectorCertificateError as error:
        raise EvidenceError(f"{shown} cannot be reached: {_UNTRUSTED}") from error
    except aiohttp.ClientConnectorError as error:
        raise EvidenceError(f"{shown} cannot be reached: {error.strerror or 'refused'}") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EvidenceError(f"{shown} gives no answer: {error or 'timed out'}") from error


async def _models(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the models that an endpoint lists; none where it lists none and the flags name one."""
    url = f"{endpoint.base}/v1/models"
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        session.get(url, headers=endpoint.headers, ssl=endpoint.tls) as response,
    ):
        models = await _listed(response)
        if models or endpoint.model:
            return models
        shown = without_password(url)
        if response.status == 200:
            raise InputError("lists no model: is this an OpenAI-compatible server?", path=shown)
        problem = f"answers {response.status}: {await said(response)}{hint(response.status)}"
        raise InputError(problem, path=shown)


async def _listed(response: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    if response.status != 200:
        return []
    try:
        models = (await response.json(content_type=None))["data"]
        return [model for model in models if isinstance(model, dict) and model.get("id")]
    except (ValueError, KeyError, TypeError):
        return []


async def _busy(endpoint: Endpoint) -> Busy | None:
    async with aiohttp.ClientSession() as session:
        return await busy(session, endpoint)


async def _post(document: dict[str, Any] | None, daemon: Daemon) -> None:
    """Send a sweep; nothing is refused for what it is (415) only where a sweep would be taken."""
    url = f"{daemon.url}/api/v1/deployments/{quote(daemon.deployment, safe='')}/sweep"
    async with (
        aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        session.post(url, json=document, ssl=daemon.tls)
        if document
        else session.post(url, ssl=daemon.tls) as response,
    ):
        is_taken = response.status < 400 if document else response.status == 415
        if not is_taken:
            raise EvidenceError(f"the daemon answers {response.status}: {await said(response)}")
