"""Faults that nobody foresaw: told once, with everything else going on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from structlog.testing import capture_logs

from support.kubernetes_api import pod, served_cluster
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import DeploymentConfig, GlobalConfig
from vllm_advisor.demo.engine import EngineSettings
from vllm_advisor.demo.server import serve_engine
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Scraper, Target
from vllm_advisor.sources.scrape import new_session
from vllm_advisor.target_finder import TargetFinder
from vllm_advisor.web.telemetry import Telemetry


class Faulty(DeploymentPipeline):
    """Fails on some pages, in one way and later in another."""

    pages = 0

    def observe_page(self, *page: Any) -> bool:
        """Take every fourth page in."""
        self.pages += 1
        if self.pages % 4:
            raise (ZeroDivisionError if self.pages < 12 else IndexError)
        return super().observe_page(*page)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something."""
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come in time")


async def test_a_page_that_breaks_its_reader_is_told_once(tmp_path: Path) -> None:
    """Each kind has one traceback in the log, every scrape is counted, and the pages between are evidence."""
    config = {"name": "chat", "static_configs": [{"targets": ["a:1"]}]}
    reading, telemetry = Faulty(DeploymentConfig.model_validate(config)), Telemetry()
    with capture_logs() as events:
        async with serve_engine(EngineSettings(), tmp_path / "log") as address, new_session() as session:
            scraper = Scraper(session, GlobalConfig(), telemetry, SteadyClock())
            target = Target(address, reading)
            for scrapes in range(1, 21):
                scraper.scrape_all([target])
                await until(lambda scrapes=scrapes: reading.pages == scrapes and target.scraping.done())
                outcomes = telemetry.scrapes
            target.stop()
    assert outcomes.labels("failed")._value.get() == 15
    assert outcomes.labels("ok")._value.get() == 5
    broken = [event for event in events if event["event"] == "a page broke what reads it"]
    assert [event["exc_info"] for event in broken] == [True, True]
    assert target.state()["outcome"] == "ok"
    assert target.first_page_seconds < target.last_page_seconds
    assert len(reading.evidence.snapshot(target.last_page_seconds).engines) == 1


async def test_a_discovery_that_breaks_costs_no_other(tmp_path: Path) -> None:
    """An object that no API gives is told with its traceback; files go on being followed."""
    file = tmp_path / "targets.json"
    file.write_text(json.dumps([{"targets": ["a:1"]}]), encoding="utf-8")
    with capture_logs() as events:
        async with served_cluster() as cluster, aiohttp.ClientSession() as session:
            broken = pod("vllm-0", "10.0.0.1")
            broken["spec"]["containers"] = ["none"]
            cluster.put("pods", broken)
            config = {
                "name": "chat",
                "kubernetes_sd_configs": [{"role": "pod", "api_server": cluster.url}],
                "file_sd_configs": [{"files": [str(file)]}],
            }
            finder = TargetFinder(DeploymentConfig.model_validate(config), lambda _: None)
            finder.follow(session)
            await until(lambda: any(event["event"] == "a discovery broke" for event in events))
            file.write_text(json.dumps([{"targets": ["a:1", "[::1", "b:2"]}]), encoding="utf-8")
            await until(lambda: list(finder.targets()) == ["a:1", "b:2"])
            finder.close()
            await asyncio.sleep(0)
    told = [(event["event"], event.get("problem")) for event in events]
    assert told == [
        ("a discovery broke", None),
        (
            "discovery fails, the last targets stand",
            "1 left out that are no host:port, such as '[::1'",
        ),
    ]
