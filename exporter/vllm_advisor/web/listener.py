"""The socket that everything is served on, with TLS where it is configured."""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web

from vllm_advisor.errors import InputError, UsageError
from vllm_advisor.web.access import Access
from vllm_advisor.web.served import WebOptions

__all__ = ["Listener", "path_prefix"]

_SHUTDOWN_SECONDS = 0.3


class Listener:
    """A socket and who may use it.

    Raises:
        InputError: the address, the external URL, or the file for TLS and users is wrong.
    """

    def __init__(self, options: WebOptions) -> None:
        self._host, self._port = _host_and_port(options.listen_address)
        self._prefix = path_prefix(options.external_url)
        self._access = Access(options.web_config_path)
        self._runner: web.AppRunner | None = None

    async def start(self, app: web.Application) -> str:
        """Serve an application; return its URL.

        Raises:
            InputError: the address cannot be listened on.
        """
        app.middlewares.append(self._access.middleware)
        app.on_response_prepare.append(self._add_headers)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        tls = self._access.tls
        try:
            await web.TCPSite(self._runner, self._host, self._port, ssl_context=tls).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"cannot listen: {reason}", key="--web.listen-address") from error
        scheme, port = "https" if tls else "http", self._runner.addresses[0][1]
        host = f"[{self._host}]" if self._host and ":" in self._host else self._host or "localhost"
        return f"{scheme}://{host}:{port}{self._prefix}"

    async def _add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self._access.headers)

    async def stop(self) -> None:
        """Close the socket."""
        if self._runner:
            await self._runner.cleanup()


def path_prefix(external_url: str | None) -> str:
    """Return the path that comes before every door's, without a slash at its end.

    Raises:
        UsageError: this is no URL.
    """
    if external_url is None:
        return ""
    url = urlsplit(external_url)
    if (
        external_url
        and not external_url.startswith("/")
        and not (url.scheme in {"http", "https"} and url.netloc)
    ):
        raise UsageError(f"expected a URL or a path, not {external_url!r}", key="--web.external-url")
    return url.path.rstrip("/")


def _host_and_port(address: str) -> tuple[str | None, int]:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(f"expected host:port, not {address!r}", key="--web.listen-address")
    return host.strip("[]") or None, int(port)
