"""Asks other servers than engines: discovery and metrics stores, with credentials from files."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from vllm_advisor.config_discovery import HttpClientConfig, TlsConfig

__all__ = ["AnswerError", "HttpClient", "TooLargeError", "TooSlowError", "tls_context"]

_SAID_CHARACTERS = 200


class AnswerError(Exception):
    """A server outside did not answer, or with something that cannot be used."""

    def __init__(self, problem: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(problem)


class TooSlowError(AnswerError):
    """There is no whole answer in the time that it may take."""


class TooLargeError(AnswerError):
    """An answer is longer than what is taken."""


class HttpClient:
    """One server, and how it is asked.

    Args:
        session: the daemon's.
        config: credentials are read from their files for each request, so that they can be rotated.
        timeout_seconds: for a whole answer.
    """

    def __init__(
        self, session: aiohttp.ClientSession, config: HttpClientConfig, *, timeout_seconds: float = 30.0
    ) -> None:
        self._session = session
        self._config = config
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=10.0)
        self._tls: ssl.SSLContext | None = None

    async def get(self, url: str, *, params: Mapping[str, str] | None = None, limit_bytes: int) -> bytes:
        """Fetch a whole answer.

        Raises:
            AnswerError: there is none, or it is no success.
        """
        async with self.answering("GET", url, params=params) as response:
            return await _whole(response, limit_bytes)

    async def post(self, url: str, form: Mapping[str, str], *, limit_bytes: int) -> bytes:
        """Send a form and fetch the whole answer.

        Raises:
            AnswerError: there is none, or it is no success.
        """
        async with self.answering("POST", url, data=form) as response:
            return await _whole(response, limit_bytes)

    @asynccontextmanager
    async def answering(
        self,
        method: str,
        url: str,
        *,
        limits: aiohttp.ClientTimeout | None = None,
        params: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Give a successful answer while it is read.

        Raises:
            AnswerError: there is none, or it is no success.
        """
        try:
            async with self._session.request(
                method,
                url,
                headers=self._headers(),
                ssl=self._trust(url),
                timeout=limits or self._timeout,
                params=params,
                data=data,
            ) as response:
                if response.status != 200:
                    said = (await response.content.read(4096)).decode("utf-8", "replace").strip()
                    problem = f"status {response.status}: {said[:_SAID_CHARACTERS]}".rstrip(": ")
                    raise AnswerError(problem, status=response.status)
                yield response
        except TimeoutError as error:
            raise TooSlowError("no whole answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AnswerError(_short(error)) from error

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", **self._config.headers}
        if basic := self._config.basic_auth:
            pair = f"{basic.username}:{_secret(basic.password_path)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if bearer := self._config.authorization:
            headers["Authorization"] = f"{bearer.type} {_secret(bearer.credentials_path)}"
        return headers

    def _trust(self, url: str) -> ssl.SSLContext | bool:
        if not url.startswith("https:") or self._config.tls_config == TlsConfig():
            return True
        if self._tls is None:
            self._tls = tls_context(self._config.tls_config)
        return self._tls


async def _whole(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    chunks, size_bytes = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            response.close()
            raise TooLargeError(f"an answer of more than {limit_bytes} bytes")
    return b"".join(chunks)


def _secret(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """Return whom to trust, and who we are, as connections take it."""
    context = ssl.create_default_context(cafile=config.ca_path)
    if config.cert_path:
        context.load_cert_chain(config.cert_path, config.key_path)
    if config.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:_SAID_CHARACTERS]
