"""Targets from a cluster's API: listed once, then watched (``kubernetes_sd_configs``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Generic, TypeVar

import aiohttp

from vllm_advisor.config_discovery import KubernetesSdConfig
from vllm_advisor.sources.discovery.found import Found, Listing
from vllm_advisor.sources.discovery.kubernetes_api import Change, Gone, KubernetesApi, own_namespace
from vllm_advisor.sources.discovery.kubernetes_objects import Pod, endpoint_targets, read_pod
from vllm_advisor.sources.http_client import AnswerError

__all__ = ["discover"]

_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 30.0
_SETTLE_SECONDS = 0.2
"""Changes come in bursts; one list is given for all that come together."""

_PATHS = {"pod": ("api/v1", "pods"), "endpointslice": ("apis/discovery.k8s.io/v1", "endpointslices")}

Kept = TypeVar("Kept")


class _Reflection(Generic[Kept]):
    """What is kept of one collection's objects, following the API.

    Args:
        path: of the collection.
        selectors: which of its objects.
        keep: what to keep of an object.
        changed: is set whenever there is news.
    """

    def __init__(
        self,
        path: str,
        selectors: Mapping[str, str],
        keep: Callable[[Mapping[str, Any]], Kept],
        changed: asyncio.Event,
    ) -> None:
        self._path, self._selectors, self._keep, self._changed = path, selectors, keep, changed
        self.kept: dict[tuple[str, str], Kept] = {}
        self.is_listed = False
        self.problem = ""

    async def follow(self, api: KubernetesApi) -> None:
        """List and watch until cancelled; while the server fails, what was kept stands."""
        version, retry_seconds = "", _FIRST_RETRY_SECONDS
        while True:
            try:
                version = version or await self._list(api)
                async with aclosing(api.watch(self._path, self._selectors, version)) as changes:
                    async for change in changes:
                        self._take_in(change)
                        version = change.version or version
                        retry_seconds = _FIRST_RETRY_SECONDS
            except Gone:
                version = ""
            except AnswerError as error:
                self._say(str(error))
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(2 * retry_seconds, _LONGEST_RETRY_SECONDS)

    async def _list(self, api: KubernetesApi) -> str:
        objects, version = await api.list(self._path, self._selectors)
        self.kept = {_key(one): self._keep(one) for one in objects}
        self.is_listed = True
        self.problem = ""
        self._changed.set()
        return version

    def _take_in(self, change: Change) -> None:
        self.problem = ""
        match change.kind:
            case "ADDED" | "MODIFIED":
                self.kept[_key(change.content)] = self._keep(change.content)
            case "DELETED":
                self.kept.pop(_key(change.content), None)
        self._changed.set()

    def _say(self, problem: str) -> None:
        self.problem = problem
        self._changed.set()


async def discover(
    config: KubernetesSdConfig, session: aiohttp.ClientSession
) -> AsyncGenerator[Listing, None]:
    """List a cluster's targets afresh after every change."""
    api, changed = KubernetesApi(session, config), asyncio.Event()
    try:
        namespaces = _namespaces(config)
    except AnswerError as error:
        yield Listing(None, str(error))
        return
    pods = [
        _Reflection(_path("pod", one), _selectors(config, "pod"), read_pod, changed) for one in namespaces
    ]
    slices = [
        _Reflection(_path("endpointslice", one), _selectors(config, "endpointslice"), _same, changed)
        for one in (namespaces if config.role == "endpointslice" else ())
    ]
    followed: list[_Reflection[Any]] = [*pods, *slices]
    following = [asyncio.create_task(one.follow(api)) for one in followed]
    for task in following:
        task.add_done_callback(lambda _: changed.set())
    try:
        while True:
            await changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            changed.clear()
            for task in following:
                if task.done():
                    task.result()
            problem = next((one.problem for one in followed if one.problem), "")
            is_listed = all(one.is_listed for one in followed)
            yield Listing(_targets(pods, slices) if is_listed else None, problem)
    finally:
        for task in following:
            task.cancel()
        for task in following:
            with suppress(asyncio.CancelledError, Exception):
                await task


def _targets(pods: list[_Reflection[Pod]], slices: list[_Reflection[Mapping[str, Any]]]) -> tuple[Found, ...]:
    known = {key: pod for one in pods for key, pod in one.kept.items()}
    if not slices:
        return tuple(target for pod in known.values() for target in pod.targets())
    by_namespace: dict[str, dict[str, Pod]] = {}
    for (namespace, name), pod in known.items():
        by_namespace.setdefault(namespace, {})[name] = pod
    return tuple(
        target
        for one in slices
        for (namespace, _), content in one.kept.items()
        for target in endpoint_targets(content, by_namespace.get(namespace, {}))
    )


def _namespaces(config: KubernetesSdConfig) -> list[str]:
    """Return the namespaces to look in; an empty name is all of them."""
    names = [*config.namespaces.names, *([own_namespace()] if config.namespaces.own_namespace else [])]
    return names or [""]


def _path(kind: str, namespace: str) -> str:
    group, plural = _PATHS[kind]
    return f"/{group}/namespaces/{namespace}/{plural}" if namespace else f"/{group}/{plural}"


def _selectors(config: KubernetesSdConfig, kind: str) -> dict[str, str]:
    chosen = next((one for one in config.selectors if one.role == kind), None)
    given = {"labelSelector": chosen.label, "fieldSelector": chosen.field} if chosen else {}
    return {name: text for name, text in given.items() if text}


def _key(content: Mapping[str, Any]) -> tuple[str, str]:
    metadata = content.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _same(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return content
