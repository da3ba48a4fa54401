"""Stores that answer late, in part, too slowly, with other labels, or with something else than samples."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from support.history import INSTANCES, ScrapedPage, history
from support.stored_answers import stored_answer
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Target
from vllm_advisor.sources.page import PageReader
from vllm_advisor.store_follower import StoreFollower

Answer = dict[str, Any]
CHANGED_SECONDS = time.time() - 3000
READER = PageReader()


class OddStore:
    """A store of some pages; ``limit`` may refuse a stretch, ``change`` alters the answer to one."""

    def __init__(self, pages: list[ScrapedPage]) -> None:
        self.pages, self.url = pages, ""
        self.late_seconds = 0.0
        self.limit: Callable[[float], web.Response | None] = lambda _: None
        self.change: Callable[[Answer], Any] = lambda answer: answer
        self.asked_seconds: list[float] = []

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a query for a stretch of raw samples."""
        form = await request.post()
        end = float(str(form["time"]))
        stretch = int(re.findall(r"\[(\d+)ms\]", str(form["query"]))[0]) / 1000
        self.asked_seconds.append(stretch)
        refusal = self.limit(stretch)
        if refusal is not None:
            return refusal
        newest = time.time() - self.late_seconds
        pages = [one for one in self.pages if end - stretch <= one.time_seconds <= min(end, newest)]
        return web.json_response(self.change(json.loads(stored_answer(pages))))


@asynccontextmanager
async def served(pages: list[ScrapedPage]) -> AsyncIterator[OddStore]:
    """Serve pages."""
    store, app = OddStore(pages), web.Application()
    app.router.add_post("/api/v1/query", store.answer)
    async with TestServer(app) as server:
        store.url = str(server.make_url(""))
        yield store


def pipeline(store: OddStore, **more: Any) -> DeploymentPipeline:
    """Return the pipeline of a deployment that reads a store."""
    reading = {"url": store.url, "selector": '{job="vllm"}', "interval": "100ms", "delay": "0s"} | more
    config = {"name": "chat", "context": {"window": "3h"}, "prometheus": reading}
    return DeploymentPipeline(DeploymentConfig.model_validate(config))


@asynccontextmanager
async def following(reading: DeploymentPipeline) -> AsyncIterator[StoreFollower]:
    """Follow a deployment's store."""
    assert reading.config.prometheus
    followed = StoreFollower(reading, reading.config.prometheus)
    async with aiohttp.ClientSession() as session:
        followed.follow(session, SteadyClock())
        try:
            yield followed
        finally:
            followed.close()
            await asyncio.sleep(0)


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for something."""
    for _ in range(round(seconds / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come in time")


def requests_seen(reading: DeploymentPipeline) -> float:
    """Return how many requests the evidence holds."""
    return reading.evidence.snapshot(time.time()).context.requests


def requests_of(pages: list[ScrapedPage]) -> float:
    """Return how many requests the same pages hold that were scraped one by one."""
    scraped = DeploymentPipeline(
        DeploymentConfig.model_validate({"name": "x", "static_configs": [{"targets": ["a:1"]}]})
    )
    for page in pages:
        observe(scraped, page, page.instance)
    seen = requests_seen(scraped)
    assert seen > 100
    return seen


def observe(reading: DeploymentPipeline, page: ScrapedPage, name: str) -> None:
    """Take a page in that was scraped."""
    reading.observe_page(name, page.time_seconds, READER.read(page.text.encode(), name).engines)


async def test_the_past_counts_that_is_read_after_scraping_began() -> None:
    """Where a store failed at first and the engines were scraped meanwhile, their past comes later."""
    pages = history(time.time() - 5, 2.0)
    scraped = [page for page in pages if page.time_seconds > time.time() - 60]
    past = [page for page in pages if page not in scraped]
    async with served(pages) as store:
        store.limit = lambda _: web.Response(status=500)
        reading = pipeline(store)
        async with following(reading) as followed:
            await until(lambda: not followed.is_catching_up)
            targets = [Target(instance, reading) for instance in INSTANCES]
            for target in targets:
                own = [page for page in scraped if page.instance == target.name]
                for page in own:
                    observe(reading, page, target.name)
                target.first_page_seconds, target.last_page_seconds = (
                    own[0].time_seconds,
                    own[-1].time_seconds,
                )
            followed.scraped(targets)
            store.limit = lambda _: None
            await until(lambda: (followed.state()["position_seconds"] or 0) > pages[-1].time_seconds - 1)
    expected = requests_of(past) + requests_of(scraped)
    assert requests_seen(reading) == pytest.approx(expected)


async def test_a_store_behind_our_clock_is_waited_for() -> None:
    """Samples that are there only a minute after their time are read all the same, each once."""
    pages = history(time.time() + 30, 1.0)
    async with served(pages) as store:
        store.late_seconds = 60.0
        reading = pipeline(store)
        async with following(reading) as followed:
            await until(lambda: not followed.is_catching_up)
            store.late_seconds = 50.0
            await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 52)
            read = [page for page in pages if page.time_seconds <= followed.state()["position_seconds"]]
    assert requests_seen(reading) == pytest.approx(requests_of(read))


@pytest.mark.parametrize("status", [413, 422, 503, 504])
async def test_a_store_that_gives_little_at_once_is_asked_for_less(status: int) -> None:
    """Whatever a store says of a stretch that is too long for it, shorter ones are asked for from then on."""
    pages = history(time.time() - 5, 2.0)
    async with served(pages) as store:
        store.limit = lambda stretch: (
            web.Response(status=status, text="more than -search.maxSamplesPerQuery")
            if stretch > 700
            else None
        )
        reading = pipeline(store)
        async with following(reading) as followed:
            await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 60, seconds=60)
    assert requests_seen(reading) == pytest.approx(requests_of(pages))
    refused = sum(stretch > 700 for stretch in store.asked_seconds)
    assert refused < len(store.asked_seconds) / 4


async def test_advice_waits_for_the_last_minutes_too() -> None:
    """However short the stretches that a store gives, the past is read when all of it is."""
    pages = history(time.time() - 5, 1.0)
    async with served(pages) as store:
        store.limit = lambda stretch: web.Response(status=422) if stretch > 80 else None
        reading = pipeline(store)
        async with following(reading) as followed:
            await until(lambda: not followed.is_catching_up, seconds=60)
            assert requests_seen(reading) == pytest.approx(requests_of(pages))


def with_labels(change: Callable[[dict[str, str], float], dict[str, str]]) -> Callable[[Answer], Answer]:
    """Return what gives every sample's series other labels."""

    def changed(answer: Answer) -> Answer:
        found: dict[str, Answer] = {}
        for one in answer["data"]["result"]:
            for sample in one["values"]:
                metric = change(dict(one["metric"]), sample[0])
                key = json.dumps(metric, sort_keys=True)
                found.setdefault(key, {"metric": metric, "values": []})["values"].append(sample)
        answer["data"]["result"] = list(found.values())
        return answer

    return changed


def without_instance(metric: dict[str, str], _: float) -> dict[str, str]:
    """Have pods instead of instances."""
    return metric | {"pod": metric.pop("instance")}


CHANGES: dict[str, Callable[[Answer], Any]] = {
    "labels that change on the way": with_labels(
        lambda metric, seconds: metric | {"version": "new" if seconds > CHANGED_SECONDS else "old"}
    ),
    "no instance": with_labels(without_instance),
    "histograms among them": lambda answer: (
        answer["data"]["result"].insert(
            0, {"metric": {"__name__": "vllm:num_requests_running", "instance": "x"}, "histograms": [[1, {}]]}
        )
        or answer
    ),
    "other series among them": lambda answer: (
        answer["data"]["result"].append({"metric": {"job": "vllm"}, "values": [[time.time(), "1"]]}) or answer
    ),
    "hints": lambda answer: answer | {"infos": ["a hint"], "stats": {}},
}


@pytest.mark.parametrize("name", CHANGES)
async def test_other_labels_and_series_cost_nothing(name: str) -> None:
    """However the store spells it, the same requests come out."""
    pages = history(time.time() - 5, 2.0)
    async with served(pages) as store:
        store.change = CHANGES[name]
        reading = pipeline(store)
        async with following(reading) as followed:
            await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 60)
    assert requests_seen(reading) == pytest.approx(requests_of(pages))
    assert len(reading.evidence.snapshot(time.time()).engines) == len(INSTANCES)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "success", "data": {"resultType": "vector", "result": []}},
        {"status": "error", "errorType": "bad_data", "error": "no"},
        {
            "status": "success",
            "data": {"resultType": "matrix", "result": [{"metric": 1, "values": [[1, 2]]}]},
        },
        {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1]]}]}},
        {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [
                    {"metric": {"__name__": "vllm:num_requests_running"}, "values": [["x", "1"], [{}, "2"]]}
                ],
            },
        },
        [],
        None,
    ],
    ids=["vector", "error", "no labels", "no pair", "no time", "list", "null"],
)
async def test_an_answer_of_another_kind_is_told_once(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a failure of the store, told in one line, until there is an answer again."""
    monkeypatch.setattr("vllm_advisor.store_follower._PATIENCE_SECONDS", 0.5)
    pages = history(time.time() - 5, 1.0)
    with capture_logs() as events:
        async with served(pages) as store:
            store.change = lambda _: answer
            reading = pipeline(store)
            async with following(reading) as followed:
                await until(lambda: not followed.is_catching_up)
                await until(lambda: len(store.asked_seconds) > 8)
                store.change = lambda answer: answer
                await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 60)
    assert requests_seen(reading) == pytest.approx(requests_of(pages))
    told = [event["event"] for event in events if event["event"] != "reading the past from the store"]
    assert told == ["the store fails", "the store answers again"]
    assert "exc_info" not in events[0]


@pytest.mark.parametrize("partial", [{"warnings": ["store 10.0.0.7 is down"]}, {"isPartial": True}])
async def test_an_answer_in_part_is_told_once(partial: Answer) -> None:
    """What a store leaves out is not waited for, since it may never come, but told."""
    pages = history(time.time() - 5, 1.0)
    with capture_logs() as events:
        async with served(pages) as store:
            store.change = lambda answer: answer | partial
            reading = pipeline(store)
            async with following(reading) as followed:
                await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 60)
                await asyncio.sleep(0.5)
    assert [event["event"] for event in events].count("the store answers in part") == 1


async def test_engines_that_take_turns_behind_one_address_are_told_once() -> None:
    """Each counts from a moment of its own, and so nothing follows from one page to the next."""
    pages = [
        ScrapedPage(one.time_seconds, "vllm:8000", began(one.text, 1e9 + INSTANCES.index(one.instance)))
        for one in history(time.time() - 5, 1.0)
    ]
    with capture_logs() as events:
        async with served(pages) as store:
            reading = pipeline(store)
            async with following(reading) as followed:
                await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 60)
    told = [event for event in events if event["event"].startswith("several engines")]
    assert [event["target"] for event in told] == ["vllm:8000"]
    assert requests_seen(reading) == 0


def began(page: str, created_seconds: float) -> str:
    """Return a page with the moment from which its counters count."""
    return re.sub(
        r"^vllm:generation_tokens_total(\{.*\}) .*$",
        rf"\g<0>\nvllm:generation_tokens_created\1 {created_seconds}",
        page,
        flags=re.MULTILINE,
    )


async def test_ports_that_go_without_saying() -> None:
    """A page at port 80 is one page, whether the store's label or the target says so."""
    pages = [
        ScrapedPage(one.time_seconds, "vllm:80", one.text)
        for one in history(time.time() - 5, 1.0)
        if one.instance == INSTANCES[0]
    ]
    async with served(pages) as store:
        reading = pipeline(store)
        assert reading.config.prometheus
        followed = StoreFollower(reading, reading.config.prometheus)
        target = Target("http://VLLM/metrics", reading)
        target.first_page_seconds, target.last_page_seconds = pages[0].time_seconds, pages[-1].time_seconds
        followed.scraped([target])
        async with aiohttp.ClientSession() as session:
            followed.follow(session, SteadyClock())
            await until(lambda: (followed.state()["position_seconds"] or 0) > time.time() - 60)
            followed.close()
            await asyncio.sleep(0)
    assert requests_seen(reading) == 0
