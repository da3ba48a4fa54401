"""A daemon that finds its engines in a cluster, and reads their flags off their pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from support.daemon_process import DaemonProcess, daemon_process
from support.kubernetes_api import pod, served_cluster
from vllm_advisor.demo.engine import EngineSettings
from vllm_advisor.demo.server import serve_engine


async def test_a_pod_is_scraped_with_the_flags_of_its_arguments(tmp_path: Path) -> None:
    """The pod's port is scraped, its cap is known from its arguments, and it goes with the pod."""
    async with served_cluster() as cluster, serve_engine(EngineSettings(), tmp_path / "a.jsonl") as target:
        cluster.put("pods", pod_at(target))
        (tmp_path / "advisor.yml").write_text(yaml.safe_dump(configuration(cluster.url)), encoding="utf-8")
        with daemon_process(["serve", "--config.file=advisor.yml"], tmp_path) as daemon:
            answer = await until(lambda: recommended(daemon))
            assert answer["flags"]["max_num_seqs"]["configured"] == 128
            assert answer["flags"]["max_num_seqs"]["configured_source"] == "pod_arguments"
            (scraped,) = targets(daemon)
            assert scraped["url"] == f"http://{target}/metrics"
            assert scraped["arguments"]["tensor_parallel_size"] == 2
            assert scraped["arguments"]["model"] == "org/model"
            cluster.delete("pods", "vllm-0")
            await until(lambda: not targets(daemon))


def pod_at(target: str) -> dict[str, Any]:
    """Return a pod whose engine answers at an address."""
    host, port = target.split(":")
    content = pod("vllm-0", host, args=["--model=org/model", "--max-num-seqs", "128", "-tp", "2"])
    ports = content["spec"]["containers"][0]["ports"]
    ports[0]["containerPort"] = int(port)
    ports.append({"name": "sidecar", "containerPort": 1, "protocol": "TCP"})
    return content


def configuration(url: str) -> dict[str, Any]:
    """Return a deployment of the pods' ports that are called http."""
    name = "__meta_kubernetes_pod_container_port_name"
    return {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "deployments": [
            {
                "name": "chat",
                "kubernetes_sd_configs": [{"role": "pod", "api_server": url}],
                "relabel_configs": [{"source_labels": [name], "regex": "http", "action": "keep"}],
            }
        ],
    }


def recommended(daemon: DaemonProcess) -> dict[str, Any] | None:
    """Return the recommendation once it knows the cap."""
    found = json.loads(daemon.get("/api/v1/recommendations"))["recommendations"]
    return next((one for one in found if one["flags"]["max_num_seqs"]["configured"]), None)


def targets(daemon: DaemonProcess) -> list[dict[str, Any]]:
    """Return what is scraped."""
    return list(json.loads(daemon.get("/targets"))["targets"])


async def until(condition: Callable[[], Any]) -> Any:
    """Return a condition's first true answer, with the cluster being served meanwhile."""
    for _ in range(300):
        answer = await asyncio.to_thread(condition)
        if answer:
            return answer
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come in time")
