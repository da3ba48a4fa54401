"""Asks an engine for what its metrics page lacks: ``/v1/models`` and ``/version``."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_doors
from vllm_advisor.sources.scrape import Outcome, fetch_body

__all__ = ["fetch_facts"]

_LIMIT_BYTES = 1_000_000


async def fetch_facts(
    session: aiohttp.ClientSession, base: str, *, timeout_seconds: float
) -> EngineFacts | None:
    """Return what an engine's JSON doors say, None when they do not answer.

    ``/server_info`` is never asked: it takes seconds and holds up the server's event loop.
    """
    answers = {
        path: await _json(session, base + path, timeout_seconds) for path in ("/v1/models", "/version")
    }
    if not any(answers.values()):
        return None
    return facts_from_doors(models=answers["/v1/models"], version=answers["/version"])


async def _json(session: aiohttp.ClientSession, url: str, timeout_seconds: float) -> dict[str, Any] | None:
    fetched = await fetch_body(session, url, timeout_seconds=timeout_seconds, limit_bytes=_LIMIT_BYTES)
    if fetched.outcome is not Outcome.OK or fetched.text is None:
        return None
    try:
        answer = json.loads(fetched.text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
