"""Errors of the API as problem details (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from vllm_advisor.errors import InputError

__all__ = ["answer_problems"]

_PASSED_ON = (hdrs.ALLOW, hdrs.WWW_AUTHENTICATE)

log = structlog.get_logger()


@web.middleware
async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn what goes wrong under ``/api`` into a problem document; other doors answer in plain text."""
    if "/api/" not in request.path:
        return await handler(request)
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        headers = {str(name): error.headers[name] for name in _PASSED_ON if name in error.headers}
        return _problem(request, error.status, error.text or "", headers)
    except InputError as error:
        return _problem(request, HTTPStatus.BAD_REQUEST, str(error))
    except Exception:
        log.exception("a request to the API failed", path=request.path)
        return _problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "See the daemon's log.")


def _problem(
    request: web.Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    title = HTTPStatus(status).phrase
    detail = detail.strip().removeprefix(f"{status}: ")
    document = {"type": "about:blank", "title": title, "status": int(status), "instance": request.path}
    if detail and detail != title:
        document["detail"] = detail
    return web.Response(
        status=status,
        text=json.dumps(document),
        content_type="application/problem+json",
        headers=headers,
    )
