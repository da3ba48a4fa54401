"""One daemon over two simulated engines: scraped, discovered, and through two real stores beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from support.daemon_process import DaemonProcess, daemon_process
from support.monitoring_stack import engines
from support.stores import prometheus_store, victoria_store
from support.waiting import wait_for
from vllm_advisor.demo.engine import EngineSettings

REQUESTS = 5000
WAYS = ("prometheus", "victoria", "twice", "found")
CONCURRENCIES = np.arange(20, 121, 5)


class Fleet:
    """What runs, and the file that its engines are found through."""

    def __init__(self, daemon: DaemonProcess, targets: list[str], file: Path) -> None:
        self.daemon, self.targets, self.file = daemon, targets, file

    def recommended(self) -> dict[str, dict[str, Any]]:
        """Return every recommendation by deployment."""
        answer = json.loads(self.daemon.get("/api/v1/recommendations"))
        return {one["deployment"]: one for one in answer["recommendations"]}

    def curve(self, deployment: str) -> np.ndarray[Any, Any]:
        """Return the exported latency curve at some concurrencies."""
        samples = self.daemon.metrics()["tpot_seconds"].samples
        points = sorted(
            (float(one.labels["concurrency"]), one.value)
            for one in samples
            if one.labels["deployment"] == deployment
        )
        return np.interp(CONCURRENCIES, *zip(*points, strict=True))

    def scraped(self, deployment: str) -> set[str]:
        """Return the addresses that are scraped for a deployment."""
        targets = json.loads(self.daemon.get("/targets"))["targets"]
        return {
            one["url"].split("/")[2]
            for one in targets
            if one["deployment"] == deployment and one["outcome"] == "ok"
        }

    def list_targets(self, *targets: str) -> None:
        """Write the file."""
        listed = [{"targets": list(targets), "labels": {"team": "chat"}}]
        self.file.with_suffix(".new").write_text(json.dumps(listed), encoding="utf-8")
        self.file.with_suffix(".new").replace(self.file)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run everything until each way has seen some thousand requests."""
    folder = tmp_path_factory.mktemp("fleet")
    with ExitStack() as stack:
        served = stack.enter_context(engines())
        targets = [served.start(name, EngineSettings(), folder) for name in ("a", "b")]
        urls = {
            "prometheus": stack.enter_context(prometheus_store(folder, targets, scrape_interval="250ms")),
            "victoria": stack.enter_context(victoria_store(folder, targets)),
        }
        file = folder / "targets.json"
        config = folder / "advisor.yml"
        config.write_text(yaml.safe_dump(configuration(targets, urls, file, folder)), encoding="utf-8")
        daemon = stack.enter_context(daemon_process(["serve", f"--config.file={config}"], folder))
        running = Fleet(daemon, targets, file)
        running.list_targets(*targets)
        wait_for(lambda: has_seen(running), "the requests", seconds=75)
        yield running


def configuration(targets: list[str], urls: dict[str, str], file: Path, folder: Path) -> dict[str, Any]:
    """Return five deployments of the same engines."""
    same = {
        "slo": {"tpot": "3ms", "quantile": "mean"},
        "context": {"quantile": 0.99, "round_up_to": 4096},
        "stability": {"relax_after": "0s", "tolerance": 0},
        "engine": {"max_num_seqs": 256},
    }
    listed = [{"targets": targets}]
    stores = {
        name: {"url": url, "selector": '{job="vllm"}', "interval": "1s", "delay": "2s"}
        for name, url in urls.items()
    }
    ways: dict[str, dict[str, Any]] = {
        "scraped": {"static_configs": listed},
        "prometheus": {"prometheus": stores["prometheus"]},
        "victoria": {"prometheus": stores["victoria"]},
        "twice": {"static_configs": listed, "prometheus": stores["prometheus"]},
        "found": {
            "file_sd_configs": [{"files": [str(file)]}],
            "relabel_configs": [{"source_labels": ["team"], "regex": "chat", "action": "keep"}],
        },
    }
    return {
        "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "2s"},
        "storage": {"path": str(folder / "data")},
        "deployments": [same | {"name": name} | way for name, way in ways.items()],
    }


def has_seen(fleet: Fleet) -> bool:
    """Tell whether every deployment rests on enough requests."""
    found = fleet.recommended()
    return len(found) == 1 + len(WAYS) and all(
        one["context"]["requests"] > REQUESTS for one in found.values()
    )


@pytest.mark.parametrize("way", WAYS)
def test_every_way_agrees_with_scraping(fleet: Fleet, way: str) -> None:
    """Ceilings are those of scraping, and the latency curve lies within 2% of it."""
    scraped, got = fleet.recommended()["scraped"], fleet.recommended()[way]
    assert got["flags"]["max_model_len"]["recommended"] == scraped["flags"]["max_model_len"]["recommended"]
    assert got["ceilings"]["memory"]["sequences"] == scraped["ceilings"]["memory"]["sequences"]
    assert got["ceilings"]["latency"]["grade"] == scraped["ceilings"]["latency"]["grade"] == "measured"
    low, high = (scraped["ceilings"]["latency"][side] for side in ("low", "high"))
    assert low - 1 <= got["ceilings"]["latency"]["sequences"] <= high + 1
    apart = fleet.curve(way) / fleet.curve("scraped") - 1
    assert np.sqrt(np.mean(apart**2)) < 0.02, apart


def test_no_page_counts_twice(fleet: Fleet) -> None:
    """A deployment that is scraped and queried has seen as many requests as one that is only scraped."""
    found = fleet.recommended()
    twice, once = (found[name]["context"]["requests"] for name in ("twice", "scraped"))
    assert twice == pytest.approx(once, rel=0.1)


def test_targets_come_and_go_without_a_reload(fleet: Fleet) -> None:
    """An engine that leaves the file is no longer scraped within seconds; a bad file changes nothing."""
    a, b = fleet.targets
    assert fleet.scraped("found") == {a, b}
    fleet.list_targets(a)
    wait_for(lambda: fleet.scraped("found") == {a}, "one target")
    fleet.file.write_text('[{"targets": [', encoding="utf-8")
    wait_for(
        lambda: any(event["msg"].startswith("discovery fails") for event in fleet.daemon.log()), "a word"
    )
    assert fleet.scraped("found") == {a}
    fleet.list_targets(b, a)
    wait_for(lambda: fleet.scraped("found") == {a, b}, "both targets")
    problems = [event for event in fleet.daemon.log() if event["msg"].startswith("discovery")]
    assert [event["msg"] for event in problems] == [
        "discovery fails, the last targets stand",
        "discovery is well",
    ]
