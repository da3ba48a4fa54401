"""A small Kubernetes API server: list in pages, watch, bookmarks, 410 and broken connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

__all__ = ["FakeCluster", "pod", "served_cluster", "slice_of"]

_PATHS = {"pods": "api/v1", "endpointslices": "apis/discovery.k8s.io/v1"}
_KINDS = {"pods": "PodList", "endpointslices": "EndpointSliceList"}


class FakeCluster:
    """Objects by plural and name, with the changes that watches are told.

    ``forgotten`` is the newest version that is answered with 410; ``token`` what clients must bear.
    """

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.url = ""
        self.forgotten = 0
        self.page_objects = 500
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.is_down = False
        self._version = 100
        self._objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {kind: {} for kind in _PATHS}
        self._changes: list[tuple[int, str, dict[str, Any]]] = []
        self._streams: list[asyncio.Queue[bytes | None]] = []

    def put(self, kind: str, content: dict[str, Any]) -> None:
        """Add or change an object."""
        key = content["metadata"]["namespace"], content["metadata"]["name"]
        event = "MODIFIED" if key in self._objects[kind] else "ADDED"
        self._version += 1
        content["metadata"]["resourceVersion"] = str(self._version)
        self._objects[kind][key] = content
        self._happen(kind, event, content)

    def delete(self, kind: str, name: str, namespace: str = "serving") -> None:
        """Take an object away."""
        content = self._objects[kind].pop((namespace, name))
        self._version += 1
        content["metadata"]["resourceVersion"] = str(self._version)
        self._happen(kind, "DELETED", content)

    def forget(self) -> None:
        """Compact: watches from now on up to this version are too old, and running ones are told so."""
        self.forgotten = self._version
        self._version += 1
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        self._tell(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        self.break_off()

    def break_off(self) -> None:
        """End every watch."""
        for stream in self._streams:
            stream.put_nowait(None)

    def bookmark(self) -> None:
        """Tell every watch the newest version."""
        content = {"metadata": {"resourceVersion": str(self._version)}}
        self._tell(json.dumps({"type": "BOOKMARK", "object": content}).encode() + b"\n")

    def watches(self) -> list[dict[str, str]]:
        """Return the parameters of every watch so far."""
        return [query for _, query in self.requests if "watch" in query]

    def lists(self) -> list[dict[str, str]]:
        """Return the parameters of every list so far."""
        return [query for _, query in self.requests if "watch" not in query]

    def _happen(self, kind: str, event: str, content: dict[str, Any]) -> None:
        self._changes.append(
            (self._version, kind, {"type": event, "object": json.loads(json.dumps(content))})
        )
        self._tell(json.dumps(self._changes[-1][2]).encode() + b"\n", kind)

    def _tell(self, line: bytes, kind: str | None = None) -> None:
        for stream in self._streams:
            if kind is None or stream.kind == kind:  # type: ignore[attr-defined]
                stream.put_nowait(line)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Serve a collection, cluster-wide or of a namespace."""
        kind = request.match_info["kind"]
        self.requests.append((request.path, dict(request.query)))
        if self.is_down:
            return web.Response(status=503, text="the server is currently unable to handle the request")
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="Unauthorized")
        if "watch" in request.query:
            return await self._watch(request, kind)
        return self._list(request, kind)

    def _list(self, request: web.Request, kind: str) -> web.Response:
        namespace = request.match_info.get("namespace")
        objects = [one for (at, _), one in self._objects[kind].items() if namespace in {None, at}]
        start, size = int(request.query.get("continue", 0)), self.page_objects
        more = str(start + size) if start + size < len(objects) else ""
        metadata = {"resourceVersion": str(self._version), "continue": more}
        items = objects[start : start + size]
        return web.json_response({"kind": _KINDS[kind], "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since <= self.forgotten:
            status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Gone"}
            return web.json_response(status, status=410)
        namespace = request.match_info.get("namespace")
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        stream.kind = kind  # type: ignore[attr-defined]
        self._streams.append(stream)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            for version, changed, event in self._changes:
                if version > since and changed == kind:
                    await response.write(json.dumps(event).encode() + b"\n")
            while (line := await stream.get()) is not None:
                at = json.loads(line)["object"].get("metadata", {}).get("namespace")
                if namespace in {None, at} or at is None:
                    await response.write(line[:20])
                    await response.write(line[20:])
        finally:
            self._streams.remove(stream)
        return response


@asynccontextmanager
async def served_cluster(token: str | None = None) -> AsyncIterator[FakeCluster]:
    """Serve a cluster's API on a loopback port."""
    cluster = FakeCluster(token)
    app = web.Application()
    for kind, group in _PATHS.items():
        app.router.add_get(f"/{group}/{{kind:{kind}}}", cluster.answer)
        app.router.add_get(f"/{group}/namespaces/{{namespace}}/{{kind:{kind}}}", cluster.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    try:
        await site.start()
        host, port = runner.addresses[0]
        cluster.url = f"http://{host}:{port}"
        yield cluster
    finally:
        cluster.break_off()
        await runner.cleanup()


def pod(name: str, ip: str, *, args: list[str] | None = None, namespace: str = "serving") -> dict[str, Any]:
    """Return a pod that serves a model, as the API writes it."""
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": args or ["--model", "meta-llama/Llama-3.1-8B-Instruct", "--max-num-seqs=64"],
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    }
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {"app": "vllm", "app.kubernetes.io/part-of": "chat"},
            "annotations": {"team": "search"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "vllm-5d", "controller": True}],
        },
        "spec": {
            "nodeName": "gpu-1",
            "initContainers": [{"name": "fetch", "image": "busybox", "ports": [{"containerPort": 1}]}],
            "containers": [container],
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "hostIP": "10.9.9.9",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def slice_of(name: str, pods: dict[str, str]) -> dict[str, Any]:
    """Return an endpoint slice over some pods, as the API writes it."""
    return {
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "serving",
            "labels": {"kubernetes.io/service-name": "vllm"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [ip],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {"kind": "Pod", "name": pod_name, "namespace": "serving"},
            }
            for pod_name, ip in pods.items()
        ],
    }
