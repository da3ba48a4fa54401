"""Access-log lines that a log shipper sends to the daemon, where it takes them."""

from __future__ import annotations

from typing import Any, cast, get_args

from aiohttp import web

from vllm_advisor.config import AccessLogFormat
from vllm_advisor.errors import InputError
from vllm_advisor.web.served import SERVED

__all__ = ["FORMATS", "take_requests"]

FORMATS = tuple(name for name in get_args(AccessLogFormat) if name != "regex")
"""The formats that lines can be sent in; a pattern stands in a configuration."""

_LARGEST_BODY_BYTES = 16 << 20
_KINDS = {"application/x-ndjson", "application/json", "application/octet-stream", "text/plain", "text/csv"}


async def take_requests(request: web.Request) -> dict[str, Any]:
    """Take in the lines that a request brings; return how many, and what became of them.

    Raises:
        InputError: the format is none.
    """
    if request.content_type not in _KINDS:
        raise web.HTTPUnsupportedMediaType(text="Send application/x-ndjson, or text/plain or text/csv.")
    form = _format(request.query.get("format", "auto"))
    lines = await request.clone(client_max_size=_LARGEST_BODY_BYTES).read()
    name = request.match_info["name"]
    try:
        outcomes = await request.app[SERVED].push(name, lines, form)
    except KeyError:
        raise web.HTTPNotFound(text=f"There is no deployment {name!r}.") from None
    if outcomes is None:
        raise web.HTTPServiceUnavailable(text="The configuration is being replaced: send it again.")
    return {"lines": sum(outcomes.values()), "outcomes": dict(outcomes)}


def _format(name: str) -> AccessLogFormat:
    if name not in FORMATS:
        raise InputError(f"expected one of {', '.join(FORMATS)}", key="format")
    return cast(AccessLogFormat, name)
