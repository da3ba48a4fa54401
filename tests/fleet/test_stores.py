"""Real stores as a source: what comes out of them is what was on the pages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import yaml

from support.daemon_process import DaemonProcess, daemon_process
from support.history import ScrapedPage, history, import_into_victoria, record_blocks, write_blocks
from support.stores import prometheus_store, victoria_store
from support.waiting import wait_for
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.config_discovery import PrometheusConfig
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.engine_series import NUMBERS
from vllm_advisor.sources.page import PageReader
from vllm_advisor.sources.prometheus import StoreApi, StoredPages
from vllm_advisor.web.recommendation_json import document

HOURS = 6.0
STORES = ("prometheus", "victoria")
STORED_DIGITS = {"prometheus": 0.0, "victoria": 1e-11}
"""VictoriaMetrics keeps decimal numbers of a dozen digits."""
DEPLOYMENT = {
    "slo": {"tpot": "50ms", "quantile": "mean"},
    "context": {"window": "1d"},
    "engine": {"max_num_seqs": 256},
}


class Stores:
    """Two stores with the same history."""

    def __init__(self, urls: dict[str, str], pages: list[ScrapedPage]) -> None:
        self.urls, self.pages = urls, pages


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """Run both over six hours of two engines, one of which restarts with other flags for a while."""
    folder = tmp_path_factory.mktemp("stores")
    pages = history(time.time() - 60, HOURS, restart=True)
    with ExitStack() as stack:
        blocks = write_blocks(folder, pages)
        prometheus = stack.enter_context(prometheus_store(folder, [], tsdb=blocks))
        victoria = stack.enter_context(victoria_store(folder, []))
        import_into_victoria(victoria, pages)
        yield Stores({"prometheus": prometheus, "victoria": victoria}, pages)


@pytest.mark.parametrize("store", STORES)
async def test_pages_come_back_as_they_were(stores: Stores, store: str) -> None:
    """Every page is put together again from raw samples: the very engines that were read off it."""
    reader = PageReader()
    expected = [
        (page.time_seconds, page.instance, reader.read(page.text.encode(), page.instance).engines)
        for page in stores.pages
    ]
    config = PrometheusConfig.model_validate({"url": stores.urls[store], "selector": '{job="vllm"}'})
    start, end = stores.pages[0].time_seconds - 1, stores.pages[-1].time_seconds
    async with aiohttp.ClientSession() as session:
        api, together = StoreApi(session, config), StoredPages()
        stretches = list(together.stretches(await api.samples(start, end), start))
    got = sorted(
        (time_seconds, stretch.instance, engine.cache_config, numbers)
        for stretch in stretches
        for engine in stretch.engines
        for time_seconds, numbers in zip(
            engine.time_seconds.tolist(), np.nan_to_num(engine.numbers, nan=-1.0).tolist(), strict=True
        )
    )
    assert len(got) == len(expected)
    for one, wanted in zip(got, expected, strict=True):
        (sample,) = wanted[2]
        assert one[:2] == wanted[:2]
        assert sample.cache_config.items() <= one[2].items()
        assert one[3] == pytest.approx(_numbers(sample), rel=STORED_DIGITS[store], abs=0)


def _numbers(sample: EngineSample) -> list[float]:
    """Return the numbers of an engine in the order of a series' columns, what is not there as -1."""
    numbers = [getattr(sample, name) for name in NUMBERS]
    for histogram in (sample.ttft, sample.prompt_lengths, sample.generation_lengths):
        if histogram is not None:
            numbers += [histogram.total, histogram.count, *histogram.counts]
    return [-1.0 if number is None else float(number) for number in numbers]


@pytest.mark.parametrize("store", STORES)
async def test_a_stretch_holds_its_own_samples(stores: Stores, store: str) -> None:
    """A selector that finds nothing gives nothing, and a stretch no sample from outside it."""
    config = PrometheusConfig.model_validate({"url": stores.urls[store], "selector": 'job="vllm"'})
    other = config.model_copy(update={"selector": 'job="other"'})
    middle = stores.pages[len(stores.pages) // 4].time_seconds
    async with aiohttp.ClientSession() as session:
        assert not (await StoreApi(session, other).samples(middle, middle + 60)).metrics
        matrix = await StoreApi(session, config).samples(middle, middle + 60)
    times = matrix.times(slice(None))
    assert middle <= times.min()
    assert times.max() <= middle + 60


def fresh_daemon(folder: Path, deployments: list[dict[str, Any]]) -> list[str]:
    """Write a configuration; return the command."""
    folder.mkdir(exist_ok=True)
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "storage": {"path": str(folder / "data")},
        "deployments": deployments,
    }
    (folder / "advisor.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return ["serve", f"--config.file={folder / 'advisor.yml'}"]


def recommended(daemon: DaemonProcess) -> dict[str, dict[str, Any]]:
    """Return every recommendation by deployment."""
    answer = json.loads(daemon.get("/api/v1/recommendations"))
    return {one["deployment"]: one for one in answer["recommendations"]}


def both(stores: Stores) -> list[dict[str, Any]]:
    """Return a deployment over each store."""
    return [
        DEPLOYMENT
        | {
            "name": store,
            "prometheus": {"url": stores.urls[store], "selector": '{job="vllm"}', "delay": "1s"},
        }
        for store in STORES
    ]


def by_pages(pages: list[ScrapedPage]) -> dict[str, Any]:
    """Return what pages lead to that were scraped one by one."""
    config = DEPLOYMENT | {"name": "pages", "static_configs": [{"targets": ["vllm-0:8000"]}]}
    pipeline, reader = DeploymentPipeline(DeploymentConfig.model_validate(config)), PageReader()
    for page in pages:
        engines = reader.read(page.text.encode(), page.instance).engines
        pipeline.observe_page(page.instance, page.time_seconds, engines)
        pipeline.settle(page.time_seconds)
    (recommendation,) = document([pipeline.recommend(pages[-1].time_seconds)])["recommendations"]
    return dict(recommendation)


def curve(daemon: DaemonProcess, deployment: str) -> dict[str, float]:
    """Return the exported latency curve."""
    samples = daemon.metrics()["tpot_seconds"].samples
    return {one.labels["concurrency"]: one.value for one in samples if one.labels["deployment"] == deployment}


def test_a_fresh_daemon_answers_from_the_past(stores: Stores, tmp_path: Path) -> None:
    """With hours behind it, the first answer is what the same pages lead to that were scraped one by one."""
    expected = by_pages(stores.pages)
    with daemon_process(fresh_daemon(tmp_path, both(stores)), tmp_path) as daemon:
        found = wait_for(lambda: len(got := recommended(daemon)) == 2 and got, "both", seconds=180)
        curves = [curve(daemon, store) for store in STORES]
        assert any(event["msg"] == "reading the past from the store" for event in daemon.log())
    assert curves[0] == pytest.approx(curves[1], rel=1e-6)
    for store in STORES:
        got = found[store]
        assert got["ceilings"]["latency"]["grade"] == "measured"
        for ceiling in ("latency", "memory"):
            assert got["ceilings"][ceiling]["sequences"] == expected["ceilings"][ceiling]["sequences"]
        for flag in ("max_model_len", "max_num_seqs"):
            assert got["flags"][flag]["recommended"] == expected["flags"][flag]["recommended"]
            assert got["flags"][flag]["grade"] == expected["flags"][flag]["grade"]
        assert got["context"]["requests"] == expected["context"]["requests"]


def test_two_daemons_publish_the_same(stores: Stores, tmp_path: Path) -> None:
    """A pair needs no leader: both say the same of the same store."""
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        with daemon_process(fresh_daemon(tmp_path / name, both(stores)[:1]), tmp_path / name) as daemon:
            found.append(wait_for(lambda daemon=daemon: recommended(daemon), "an answer", seconds=180))
    one, other = map(published, found)
    assert one == other


def test_a_stop_in_the_middle_is_quiet(stores: Stores, tmp_path: Path) -> None:
    """Told to stop while it reads the past, the daemon stops at once, and says nothing of it but that."""
    with daemon_process(fresh_daemon(tmp_path, both(stores)), tmp_path) as daemon:
        wait_for(lambda: any(event["msg"].startswith("reading") for event in daemon.log()), "the past")
        assert daemon.stop() < 5
        assert {event["level"] for event in daemon.log()} == {"info"}, daemon.log()


def test_recorded_minutes_lead_to_the_same(stores: Stores, tmp_path: Path) -> None:
    """The shipped rules record a quarter of the samples, and the ceilings are those of all of them."""
    expected = by_pages(stores.pages)
    blocks = record_blocks(tmp_path, stores.urls["prometheus"], stores.pages)
    with prometheus_store(tmp_path, [], tsdb=blocks) as url:
        store = {"url": url, "selector": '{job="vllm"}', "delay": "1s", "recorded": True}
        deployment = DEPLOYMENT | {"name": "recorded", "prometheus": store}
        with daemon_process(fresh_daemon(tmp_path / "daemon", [deployment]), tmp_path) as daemon:
            got = wait_for(lambda: recommended(daemon), "an answer", seconds=180)["recorded"]
            assert got["ceilings"]["latency"]["grade"] == "measured", daemon.log()
    assert got["ceilings"]["memory"]["sequences"] == expected["ceilings"]["memory"]["sequences"]
    latency = expected["ceilings"]["latency"]["sequences"]
    assert got["ceilings"]["latency"]["sequences"] == pytest.approx(latency, rel=0.03)
    flag = "max_model_len"
    assert got["flags"][flag]["recommended"] == expected["flags"][flag]["recommended"]


def published(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what a daemon says, but for when and how long it looked."""
    (answer,) = found.values()
    return {
        "args": answer["vllm_args"],
        "binding": answer["binding"],
        "flags": {name: (flag["recommended"], flag["grade"]) for name, flag in answer["flags"].items()},
        "ceilings": {name: one["sequences"] for name, one in answer["ceilings"].items()},
        "lengths": [answer["context"][name] for name in ("requests", "p50", "p99", "p999")],
        "pool": answer["kv_pool"],
        "advice": [one["code"] for one in answer["advice"]],
    }


def test_with_logs_the_first_answer_is_measured(stores: Stores, tmp_path: Path) -> None:
    """Where access logs reach back too, the first answer of a fresh daemon has both flags measured."""
    rng = np.random.default_rng(0)
    with (tmp_path / "access.jsonl").open("w", encoding="utf-8") as file:
        for page in stores.pages:
            for prompt, output in rng.integers((100, 10), (2000, 400), (4, 2)).tolist():
                line = {"ts": page.time_seconds, "prompt": prompt, "output": output, "status": 200}
                file.write(json.dumps(line) + "\n")
    fields = {"time": "ts", "prompt_tokens": "prompt", "completion_tokens": "output", "status": "status"}
    logs = [{"paths": ["../access.jsonl"], "format": "json", "fields": fields}]
    (deployment, _) = both(stores)
    with daemon_process(
        fresh_daemon(tmp_path / "daemon", [deployment | {"access_logs": logs}]), tmp_path
    ) as daemon:
        found = wait_for(lambda: recommended(daemon), "the first answer", seconds=180)
        grades = [flag["grade"] for flag in found["prometheus"]["flags"].values()]
    assert grades == ["measured", "measured"]
