"""Who may use the daemon's doors, and over which certificate: files are read again when they change."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import structlog
from aiohttp import BasicAuth, hdrs, web
from aiohttp.typedefs import Handler

from vllm_advisor.errors import InputError
from vllm_advisor.web.web_config import WebConfig, load_web_config, tls_context

__all__ = ["Access"]

_REMEMBERED_LOGINS = 100
_CHALLENGE = 'Basic realm="vllm-advisor"'

log = structlog.get_logger()

_Signature = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class _Opened:
    config: WebConfig
    tls: ssl.SSLContext | None
    files: tuple[Path, ...]

    @classmethod
    def of(cls, path: Path | None) -> _Opened:
        if path is None:
            return cls(WebConfig(), None, ())
        config = load_web_config(path)
        tls = config.tls_server_config
        return cls(config, tls_context(tls) if tls else None, (path, *(tls.files if tls else ())))


class Access:
    """TLS and users as their file says, which is looked at again for each connection and request.

    A change that cannot be used is reported once and what was in force stays. TLS itself, and who signs the
    certificates of clients, are settled at the start.

    Args:
        path: the file, None for plain HTTP and everybody.

    Raises:
        InputError: the file, or one that it names, cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = _Opened.of(path)
        self._signature = _signature(self._opened.files)
        self._logins: set[bytes] = set()
        self.tls = self._opened.tls
        if self.tls:
            self.tls.sni_callback = self._present_newest

    @property
    def headers(self) -> dict[str, str]:
        """What the file adds to every answer."""
        headers = self._newest().config.http_server_config.headers
        return {str(name): value for name, value in headers.items()}

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request pass that names a user and the password, where there are users."""
        users = self._newest().config.basic_auth_users
        if users and not await self._is_known(request.headers.get(hdrs.AUTHORIZATION, ""), users):
            raise web.HTTPUnauthorized(
                text="Name a user and the password.\n", headers={hdrs.WWW_AUTHENTICATE: _CHALLENGE}
            )
        return await handler(request)

    def _present_newest(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        newest = self._newest().tls
        if newest:
            connection.context = newest

    def _newest(self) -> _Opened:
        signature = _signature(self._opened.files)
        if signature != self._signature:
            self._signature = signature
            try:
                self._opened = _Opened.of(self._path)
            except InputError as error:
                log.warning("TLS and users cannot be read again, the earlier ones stay", problem=str(error))
            else:
                self._signature = _signature(self._opened.files)
                log.info("TLS and users read again")
        return self._opened

    async def _is_known(self, authorization: str, users: dict[str, str]) -> bool:
        try:
            given = BasicAuth.decode(authorization, encoding="utf-8")
        except ValueError:
            return False
        hashed = users.get(given.login) or next(iter(users.values()))  # as long for a name that is not known
        login = hashlib.sha256(f"{given.login}\0{given.password}\0{hashed}".encode()).digest()
        if login in self._logins:
            return True
        matches = await asyncio.to_thread(_matches, given.password, hashed)
        if not matches or given.login not in users:
            return False
        if len(self._logins) >= _REMEMBERED_LOGINS:
            self._logins.clear()
        self._logins.add(login)
        return True


def _matches(password: str, hashed: str) -> bool:
    try:
        return bcrypt.checkpw(password.encode(), hashed.encode())
    except ValueError:  # longer than bcrypt takes
        return False


def _signature(files: Iterable[Path]) -> _Signature:
    return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
