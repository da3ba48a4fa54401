"""Kubernetes discovery against an API server that lists, watches, forgets and breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.kubernetes_api import FakeCluster, pod, served_cluster, slice_of
from vllm_advisor.config_discovery import KubernetesSdConfig
from vllm_advisor.sources.discovery.found import Found, Listing
from vllm_advisor.sources.discovery.kubernetes_sd import discover
from vllm_advisor.sources.engine_facts import CapSource


class Watched:
    """What a discovery listed last."""

    def __init__(self) -> None:
        self.listing = Listing(None)

    def found(self) -> dict[str, Found]:
        """Return the targets by address."""
        return {one.labels["__address__"]: one for one in self.listing.targets or ()}

    async def until(self, *addresses: str, problem: bool = False) -> dict[str, Found]:
        """Wait for just these targets."""
        for _ in range(500):
            if set(self.found()) == set(addresses) and bool(self.listing.problem) == problem:
                return self.found()
            await asyncio.sleep(0.02)
        raise AssertionError(f"{sorted(self.found())}, {self.listing.problem!r}")


async def watched_times(cluster: FakeCluster, times: int) -> None:
    """Wait until so many watches were begun."""
    for _ in range(1000):
        if len(cluster.watches()) >= times:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(cluster.requests)


@asynccontextmanager
async def watching(cluster: FakeCluster, **more: Any) -> AsyncIterator[Watched]:
    """Follow a cluster while the context lasts."""
    config = KubernetesSdConfig.model_validate({"role": "pod", "api_server": cluster.url} | more)
    watched = Watched()

    async def follow(session: aiohttp.ClientSession) -> None:
        async with aclosing(discover(config, session)) as listings:
            async for listing in listings:
                kept = watched.listing.targets if listing.targets is None else listing.targets
                watched.listing = Listing(kept, listing.problem)

    async with aiohttp.ClientSession() as session:
        task = asyncio.create_task(follow(session))
        try:
            yield watched
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_pods_have_prometheus_labels_and_their_flags() -> None:
    """A pod's port is a target with the labels of Prometheus' role pod, and its arguments are the flags."""
    async with served_cluster() as cluster:
        cluster.put("pods", pod("vllm-0", "10.0.0.1"))
        async with watching(cluster) as watched:
            found = (await watched.until("10.0.0.1:8000"))["10.0.0.1:8000"]
    meta = {name.removeprefix("__meta_kubernetes_"): value for name, value in found.labels.items()}
    assert meta == {
        "__address__": "10.0.0.1:8000",
        "namespace": "serving",
        "pod_name": "vllm-0",
        "pod_ip": "10.0.0.1",
        "pod_ready": "true",
        "pod_phase": "Running",
        "pod_node_name": "gpu-1",
        "pod_host_ip": "10.9.9.9",
        "pod_uid": "uid-vllm-0",
        "pod_controller_kind": "ReplicaSet",
        "pod_controller_name": "vllm-5d",
        "pod_label_app": "vllm",
        "pod_labelpresent_app": "true",
        "pod_label_app_kubernetes_io_part_of": "chat",
        "pod_labelpresent_app_kubernetes_io_part_of": "true",
        "pod_annotation_team": "search",
        "pod_annotationpresent_team": "true",
        "pod_container_name": "vllm",
        "pod_container_image": "vllm/vllm-openai:v0.11.0",
        "pod_container_init": "false",
        "pod_container_port_name": "http",
        "pod_container_port_number": "8000",
        "pod_container_port_protocol": "TCP",
    }
    assert (found.facts.max_num_seqs, found.facts.max_num_seqs_source) == (64, CapSource.POD_ARGUMENTS)
    assert found.facts.vllm_version == "0.11.0"


async def test_the_watch_follows_without_a_second_list() -> None:
    """Pods come, change and go by the watch alone; one without an address is no target yet."""
    async with served_cluster() as cluster, watching(cluster) as watched:
        await watched.until()
        await watched_times(cluster, 1)
        cluster.put("pods", pod("vllm-0", ""))
        cluster.put("pods", pod("vllm-1", "10.0.0.2"))
        await watched.until("10.0.0.2:8000")
        cluster.put("pods", pod("vllm-0", "10.0.0.1"))
        await watched.until("10.0.0.1:8000", "10.0.0.2:8000")
        cluster.delete("pods", "vllm-1")
        await watched.until("10.0.0.1:8000")
        assert len(cluster.lists()) == 1


async def test_a_watch_that_ends_goes_on_from_the_newest_version() -> None:
    """After a watch ends, the next starts at the last version, a bookmark's too, without a list."""
    async with served_cluster() as cluster, watching(cluster) as watched:
        await watched_times(cluster, 1)
        cluster.put("pods", pod("vllm-0", "10.0.0.1"))
        await watched.until("10.0.0.1:8000")
        cluster._version = 150
        cluster.bookmark()
        cluster.break_off()
        await watched_times(cluster, 2)
        assert cluster.watches()[-1]["resourceVersion"] == "150"
        cluster.put("pods", pod("vllm-1", "10.0.0.2"))
        await watched.until("10.0.0.1:8000", "10.0.0.2:8000")
        assert len(cluster.lists()) == 1


@pytest.mark.parametrize("in_stream", [True, False], ids=["in the stream", "as a status"])
async def test_gone_lists_again(*, in_stream: bool) -> None:
    """410, as an event or as the answer to a watch, makes a new list; what it lacks is gone."""
    async with served_cluster() as cluster:
        cluster.put("pods", pod("vllm-0", "10.0.0.1"))
        cluster.put("pods", pod("vllm-1", "10.0.0.2"))
        async with watching(cluster) as watched:
            await watched.until("10.0.0.1:8000", "10.0.0.2:8000")
            await watched_times(cluster, 1)
            cluster._changes.clear()
            del cluster._objects["pods"]["serving", "vllm-1"]
            if in_stream:
                cluster.forget()
            else:
                cluster.forgotten = cluster._version
                cluster._version += 1
                cluster.break_off()
            await watched.until("10.0.0.1:8000")
            assert len(cluster.lists()) == 2


async def test_a_server_that_is_down_costs_no_target() -> None:
    """While the API answers 503, the last list stands with the problem told; then it follows again."""
    async with served_cluster() as cluster:
        cluster.put("pods", pod("vllm-0", "10.0.0.1"))
        async with watching(cluster) as watched:
            await watched.until("10.0.0.1:8000")
            cluster.is_down = True
            cluster.break_off()
            await watched.until("10.0.0.1:8000", problem=True)
            assert "503" in watched.listing.problem
            cluster.is_down = False
            cluster.put("pods", pod("vllm-1", "10.0.0.2"))
            await watched.until("10.0.0.1:8000", "10.0.0.2:8000")


async def test_lists_come_in_pages_with_selectors_namespaces_and_credentials(tmp_path: Path) -> None:
    """The list is fetched page by page, of the given namespaces, with the selector and the bearer's token."""
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    more = {
        "namespaces": {"names": ["serving"]},
        "selectors": [{"role": "pod", "label": "app=vllm"}],
        "authorization": {"credentials_file": tmp_path / "token"},
    }
    async with served_cluster("secret") as cluster:
        cluster.page_objects = 2
        addresses = [f"10.0.0.{index}:8000" for index in range(1, 6)]
        for index, address in enumerate(addresses):
            cluster.put("pods", pod(f"vllm-{index}", address.removesuffix(":8000")))
        cluster.put("pods", pod("other", "10.1.0.1", namespace="other"))
        async with watching(cluster, **more) as watched:
            await watched.until(*addresses)
            assert {path for path, _ in cluster.requests} == {"/api/v1/namespaces/serving/pods"}
            assert [query.get("continue") for query in cluster.lists()] == [None, "2", "4"]
            assert {query["labelSelector"] for query in cluster.lists()} == {"app=vllm"}


async def test_endpoints_carry_their_pods_labels_and_flags() -> None:
    """A slice's addresses are targets, with the labels and the arguments of the pods behind them."""
    async with served_cluster() as cluster:
        cluster.put("pods", pod("vllm-0", "10.0.0.1"))
        cluster.put("endpointslices", slice_of("vllm-abc", {"vllm-0": "10.0.0.1"}))
        async with watching(cluster, role="endpointslice") as watched:
            found = (await watched.until("10.0.0.1:8000"))["10.0.0.1:8000"]
            labels = found.labels
            assert labels["__meta_kubernetes_service_name"] == "vllm"
            assert labels["__meta_kubernetes_endpointslice_endpoint_conditions_ready"] == "true"
            assert labels["__meta_kubernetes_endpointslice_port_name"] == "http"
            assert labels["__meta_kubernetes_pod_label_app"] == "vllm"
            assert found.facts.max_num_seqs == 64
            cluster.put("endpointslices", slice_of("vllm-abc", {}))
            await watched.until()
