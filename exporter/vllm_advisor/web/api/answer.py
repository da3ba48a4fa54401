"""JSON answers, which are not sent again to a client that has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from aiohttp import ETag, hdrs, web

__all__ = ["json_answer", "revalidated_answer"]


def json_answer(value: dict[str, Any]) -> web.Response:
    """Answer with a JSON object."""
    return web.Response(text=_encoded(value), content_type="application/json")


def revalidated_answer(request: web.Request, value: dict[str, Any], modified_seconds: float) -> web.Response:
    """Answer with a JSON object, or 304 where the client's copy is this one.

    Args:
        request: with ``If-None-Match``, which decides, or ``If-Modified-Since``.
        value: what is answered.
        modified_seconds: Unix time of the newest part of it.
    """
    text = _encoded(value)
    tag = blake2b(text.encode(), digest_size=16).hexdigest()
    modified = datetime.fromtimestamp(int(modified_seconds), UTC)
    if _has_it(request, tag, modified):
        response = web.Response(status=304)
    else:
        response = web.Response(text=text, content_type="application/json")
    response.etag = tag
    response.last_modified = modified
    response.headers[hdrs.CACHE_CONTROL] = "no-cache"
    return response


def _encoded(value: dict[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _has_it(request: web.Request, tag: str, modified: datetime) -> bool:
    known: tuple[ETag, ...] | None = request.if_none_match
    if known is not None:
        return any(one.value in {tag, "*"} for one in known)
    since = request.if_modified_since
    return since is not None and modified <= since
