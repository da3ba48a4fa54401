"""Lists and watches objects through the Kubernetes API, on plain HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from vllm_advisor.config_discovery import Authorization, KubernetesSdConfig, TlsConfig
from vllm_advisor.sources.http_client import AnswerError, HttpClient

__all__ = ["Change", "Gone", "KubernetesApi", "in_cluster", "own_namespace"]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER = "https://kubernetes.default.svc"
_PAGE_OBJECTS = "500"
_LIMIT_BYTES = 256_000_000
_WATCH_SECONDS = 300
_GONE = 410


class Gone(AnswerError):  # noqa: N818 - what it is, not that it is one
    """The API no longer knows the version that was asked for (410): everything has to be listed again."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch.

    Args:
        kind: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``.
        content: the object.
    """

    kind: str
    content: Mapping[str, Any]

    @property
    def version(self) -> str:
        """The version to go on from."""
        return str(self.content.get("metadata", {}).get("resourceVersion", ""))


class KubernetesApi:
    """One API server."""

    def __init__(self, session: aiohttp.ClientSession, config: KubernetesSdConfig) -> None:
        self._server = config.api_server or _IN_CLUSTER
        self._client = HttpClient(session, config if config.api_server else in_cluster(config))

    async def list(self, path: str, selectors: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        """Return every object of a collection, and the version of the list.

        Raises:
            AnswerError: the server does not give it; `Gone` when it forgot a list in the middle.
        """
        objects: list[dict[str, Any]] = []
        params = {**selectors, "limit": _PAGE_OBJECTS}
        while True:
            answer = await self._get(path, params)
            objects += answer["items"]
            metadata = answer["metadata"]
            if not metadata.get("continue"):
                return objects, str(metadata.get("resourceVersion", ""))
            params["continue"] = metadata["continue"]

    async def watch(
        self, path: str, selectors: Mapping[str, str], version: str
    ) -> AsyncGenerator[Change, None]:
        """Yield changes since a version until the server ends the watch.

        Raises:
            AnswerError: the server does not answer, or breaks off; `Gone` when it no longer has the version.
        """
        params = {
            **selectors,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        limits = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_WATCH_SECONDS + 30.0)
        with _gone_is_told():
            async with self._client.answering(
                "GET", self._server + path, params=params, limits=limits
            ) as response:
                held = b""
                async for chunk in response.content.iter_any():
                    *lines, held = (held + chunk).split(b"\n")
                    for line in filter(None, lines):
                        yield _change(line)

    async def _get(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        with _gone_is_told():
            answer = await self._client.get(self._server + path, params=params, limit_bytes=_LIMIT_BYTES)
        try:
            document = json.loads(answer)
        except ValueError as error:
            raise AnswerError("the answer is no JSON") from error
        if not (
            isinstance(document, dict)
            and isinstance(document.get("items"), list)
            and isinstance(document.get("metadata"), dict)
        ):
            raise AnswerError("the answer is no Kubernetes list")
        return document


@contextmanager
def _gone_is_told() -> Iterator[None]:
    try:
        yield
    except AnswerError as error:
        if error.status == _GONE and not isinstance(error, Gone):
            raise Gone(str(error), status=_GONE) from error
        raise


def in_cluster(config: KubernetesSdConfig, account: Path = _ACCOUNT) -> KubernetesSdConfig:
    """Return how to ask the cluster we run in: as its service account."""
    authorization = Authorization(credentials_file=account / "token")
    return config.model_copy(
        update={"authorization": authorization, "tls_config": TlsConfig(ca_file=account / "ca.crt")}
    )


def own_namespace(account: Path = _ACCOUNT) -> str:
    """Return the namespace we run in.

    Raises:
        AnswerError: we run in none.
    """
    try:
        return (account / "namespace").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise AnswerError("own_namespace: this is no pod with a service account") from error


def _change(line: bytes) -> Change:
    try:
        event = json.loads(line)
        kind, content = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError("the answer is no Kubernetes watch") from error
    if kind == "ERROR":
        problem = f"{content.get('code')}: {content.get('message')}"
        raise (Gone if content.get("code") == _GONE else AnswerError)(problem, status=content.get("code"))
    return Change(kind, content)
