"""One daemon over some simulated engines: scraped, discovered, and through two real stores beside it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.daemon_process import DaemonProcess, daemon_process
from support.monitoring_stack import engines
from support.stores import prometheus_store, victoria_store
from support.waiting import wait_for
from vllm_advisor.demo.engine import EngineSettings, StepLaw
from vllm_advisor.demo.traffic import Swing

ENGINES = 4
REQUESTS = 2400
WAYS = ("prometheus", "victoria", "twice", "found")
CONCURRENCIES = np.arange(12, 37, 2)
SCRAPE_INTERVAL = "2s"
"""Long beside how late a page comes from a busy machine, and short beside a request."""
SLOW_AND_STEEP = StepLaw(8e-3, 400e-6, 5.2e-9, 1.3e-6)
"""One sequence more at the ceiling is 2% more TPOT, which other scrapes of the same engines do not hide."""
LONG_DAY = Swing(night_per_second=4.0, day_per_second=8.5, period_seconds=40.0)


class Fleet:
    """What runs, and the file that its engines are found through."""

    def __init__(self, daemon: DaemonProcess, targets: list[str], file: Path) -> None:
        self.daemon, self.targets, self.file = daemon, targets, file

    def recommended(self) -> dict[str, dict[str, Any]]:
        """Return every recommendation by deployment."""
        answer = json.loads(self.daemon.get("/api/v1/recommendations"))
        return {one["deployment"]: one for one in answer["recommendations"]}

    def curves(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return every exported latency curve at some concurrencies, by deployment."""
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for one in self.daemon.metrics()["tpot_seconds"].samples:
            points[one.labels["deployment"]].append((float(one.labels["concurrency"]), one.value))
        return {
            name: np.interp(CONCURRENCIES, *zip(*sorted(curve), strict=True))
            for name, curve in points.items()
        }

    def answered(self) -> float:
        """Return how many requests the engines say that they answered."""
        pages = (urlopen(f"http://{target}/metrics").read().decode() for target in self.targets)
        families = (family for page in pages for family in text_string_to_metric_families(page))
        return sum(
            one.value
            for family in families
            for one in family.samples
            if one.name == "vllm:request_success_total"
        )

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
        targets = [
            served.start(
                f"engine-{seed}", EngineSettings(), folder, law=SLOW_AND_STEEP, swing=LONG_DAY, seed=seed
            )
            for seed in range(ENGINES)
        ]
        urls = {
            "prometheus": stack.enter_context(
                prometheus_store(folder, targets, scrape_interval=SCRAPE_INTERVAL)
            ),
            "victoria": stack.enter_context(victoria_store(folder, targets, scrape_interval=SCRAPE_INTERVAL)),
        }
        file = folder / "targets.json"
        config = folder / "advisor.yml"
        config.write_text(yaml.safe_dump(configuration(targets, urls, file, folder)), encoding="utf-8")
        daemon = stack.enter_context(daemon_process(["serve", f"--config.file={config}"], folder))
        running = Fleet(daemon, targets, file)
        running.list_targets(*targets)
        wait_for(lambda: has_seen(running), "the requests", seconds=240, every_seconds=2)
        yield running


def configuration(targets: list[str], urls: dict[str, str], file: Path, folder: Path) -> dict[str, Any]:
    """Return five deployments of the same engines."""
    same = {
        "slo": {"tpot": "19ms", "quantile": "mean"},
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
        "global": {
            "scrape_interval": SCRAPE_INTERVAL,
            "scrape_timeout": SCRAPE_INTERVAL,
            "evaluation_interval": SCRAPE_INTERVAL,
        },
        "storage": {"path": str(folder / "data")},
        "deployments": [same | {"name": name} | way for name, way in ways.items()],
    }


def has_seen(fleet: Fleet) -> bool:
    """Tell whether every deployment rests on enough requests."""
    found = fleet.recommended()
    return len(found) == 1 + len(WAYS) and all(
        one["context"]["requests"] > REQUESTS for one in found.values()
    )


@pytest.mark.flaky(reruns=2, reruns_delay=40)  # by then each way has seen a third more
@pytest.mark.parametrize("way", WAYS)
def test_every_way_agrees_with_scraping(fleet: Fleet, way: str) -> None:
    """Ceilings are those of scraping, and the latency curve lies within 2% of it."""
    found, curves = fleet.recommended(), fleet.curves()
    scraped, got = found["scraped"], found[way]
    assert got["flags"]["max_model_len"]["recommended"] == scraped["flags"]["max_model_len"]["recommended"]
    assert got["ceilings"]["memory"]["sequences"] == scraped["ceilings"]["memory"]["sequences"]
    assert got["ceilings"]["latency"]["grade"] == scraped["ceilings"]["latency"]["grade"] == "measured"
    low, high = (scraped["ceilings"]["latency"][side] for side in ("low", "high"))
    assert low - 1 <= got["ceilings"]["latency"]["sequences"] <= high + 1
    apart = curves[way] / curves["scraped"] - 1
    assert np.sqrt(np.mean(apart**2)) < 0.02, apart


def test_no_page_counts_twice(fleet: Fleet) -> None:
    """A deployment that is scraped and queried has seen what scraping sees, and no more than there was."""
    found = fleet.recommended()
    twice, once = (found[name]["context"]["requests"] for name in ("twice", "scraped"))
    assert 0.9 * once < twice <= fleet.answered()


def test_targets_come_and_go_without_a_reload(fleet: Fleet) -> None:
    """An engine that leaves the file is no longer scraped within seconds; a bad file changes nothing."""
    a, *others = fleet.targets
    assert fleet.scraped("found") == {a, *others}
    fleet.list_targets(a)
    wait_for(lambda: fleet.scraped("found") == {a}, "one target")
    fleet.file.write_text('[{"targets": [', encoding="utf-8")
    wait_for(
        lambda: any(event["msg"].startswith("discovery fails") for event in fleet.daemon.log()), "a word"
    )
    assert fleet.scraped("found") == {a}
    fleet.list_targets(*others, a)
    wait_for(lambda: fleet.scraped("found") == {a, *others}, "all targets")
    problems = [event for event in fleet.daemon.log() if event["msg"].startswith("discovery")]
    assert [event["msg"] for event in problems] == [
        "discovery fails, the last targets stand",
        "discovery is well",
    ]
