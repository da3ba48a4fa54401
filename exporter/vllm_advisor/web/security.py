"""Headers that keep a browser to what the daemon itself ships, and writes to its own pages."""

from __future__ import annotations

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

__all__ = ["add_security_headers", "refuse_other_sites"]

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_READING = {hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS}


async def add_security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers to an answer."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what another site's page has a browser send."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    if request.method not in _READING and site not in {"same-origin", "none"}:
        raise web.HTTPForbidden(text="Writes from the pages of other sites are refused.\n")
    return await handler(request)
