"""The past is read once, whatever interrupts it, and never what was scraped by ourselves."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.history import INSTANCES, ScrapedPage, history, write_blocks
from support.stores import free_port, prometheus_store
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.evidence.deployment import Succession
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Target
from vllm_advisor.sources.engine_series import EngineSeries
from vllm_advisor.store_follower import StoreFollower

SLOW_ANSWERS = 10


class Recording(DeploymentPipeline):
    """Notes which pages it was given."""

    def __init__(self, url: str, enough_pages: int = 0) -> None:
        store = {"url": url, "selector": '{job="vllm"}', "interval": "100ms", "delay": "0s"}
        config = {"name": "chat", "context": {"window": "1d"}, "prometheus": store}
        super().__init__(DeploymentConfig.model_validate(config))
        self.seen: list[tuple[float, str]] = []
        self.enough, self._enough_pages = asyncio.Event(), enough_pages

    def observe_series(self, target: str, engines: Sequence[EngineSeries]) -> Succession:
        """Note an engine's pages, and take them in."""
        self.seen += [(time_seconds, target) for one in engines for time_seconds in one.time_seconds.tolist()]
        return super().observe_series(target, engines)

    def settle(self, now_seconds: float) -> None:
        """Put what was seen of all engines in the order of time, as evidence does."""
        self.seen.sort()
        if len(self.seen) >= self._enough_pages:
            self.enough.set()
        super().settle(now_seconds)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[ScrapedPage]]]:
    """Run Prometheus over three hours of two engines."""
    folder = tmp_path_factory.mktemp("past")
    pages = history(time.time() - 30, 3.0)
    with prometheus_store(folder, [], tsdb=write_blocks(folder, pages)) as url:
        yield url, pages


def follower(pipeline: Recording, state: object = None) -> StoreFollower:
    """Return a follower whose state went over a disk."""
    assert pipeline.config.prometheus
    return StoreFollower(pipeline, pipeline.config.prometheus, json.loads(json.dumps(state)))


async def caught_up(followed: StoreFollower) -> None:
    """Let a follower read all there is."""
    async with aiohttp.ClientSession() as session:
        followed.follow(session, SteadyClock())
        for _ in range(1000):
            if not followed.is_catching_up:
                break
            await asyncio.sleep(0.02)
        followed.close()
        await asyncio.sleep(0)
    assert not followed.is_catching_up


def times(pages: Iterable[ScrapedPage]) -> list[tuple[float, str]]:
    """Return what pages are told apart by."""
    return [(page.time_seconds, page.instance) for page in pages]


async def test_every_page_is_read_once_in_order(past: tuple[str, list[ScrapedPage]]) -> None:
    """All pages of the past come in the order of time."""
    url, pages = past
    pipeline = Recording(url)
    await caught_up(follower(pipeline))
    assert pipeline.seen == times(pages)


@pytest.mark.parametrize("after_pages", [1, 7, 101, 650])
async def test_an_interrupted_reading_goes_on(past: tuple[str, list[ScrapedPage]], after_pages: int) -> None:
    """Stopped anywhere, with its state on disk, the next one reads the rest: each page once in all."""
    url, pages = past
    pipeline = Recording(url, after_pages)
    first = follower(pipeline)
    async with aiohttp.ClientSession() as session:
        first.follow(session, SteadyClock())
        await asyncio.wait_for(pipeline.enough.wait(), 60)
        state = first.state()
        read = list(pipeline.seen)
        first.close()
        await asyncio.sleep(0)
    second = Recording(url)
    await caught_up(follower(second, state))
    known = {name: (time_seconds, name) for time_seconds, name in read}
    assert second.seen == sorted(known.values()) + times(pages)[len(read) :]


async def test_nothing_is_lost_where_a_reading_was_interrupted(past: tuple[str, list[ScrapedPage]]) -> None:
    """What happened between the last pages before and the first after counts, as without a stop."""
    url, pages = past
    whole, first = Recording(url), Recording(url, len(pages) // 2)
    await caught_up(follower(whole))
    stopped = follower(first)
    async with aiohttp.ClientSession() as session:
        stopped.follow(session, SteadyClock())
        await asyncio.wait_for(first.enough.wait(), 60)
        saved = json.loads(json.dumps([first.state(), stopped.state()]))
        stopped.close()
        await asyncio.sleep(0)
    second = Recording(url)
    second.restore(saved[0])
    await caught_up(follower(second, saved[1]))
    assert len(first.seen) < len(pages)
    assert requests_seen(second) == requests_seen(whole) > 0


def requests_seen(pipeline: DeploymentPipeline) -> float:
    """Return how many requests the evidence holds."""
    return pipeline.evidence.snapshot(time.time()).context.requests


async def test_what_was_scraped_by_ourselves_is_left_out(past: tuple[str, list[ScrapedPage]]) -> None:
    """Between our own first and last page of an address, the store's pages of it do not count; others do."""
    url, pages = past
    start, end = pages[200].time_seconds, pages[400].time_seconds
    pipeline = Recording(url)
    followed = follower(pipeline)
    target = Target(f"http://{INSTANCES[0]}/metrics", pipeline)
    target.first_page_seconds, target.last_page_seconds = start, end
    followed.scraped([target])
    await caught_up(follower(pipeline, followed.state()))
    expected = [
        page for page in pages if page.instance != INSTANCES[0] or not start <= page.time_seconds <= end
    ]
    assert pipeline.seen == times(expected)


async def test_pages_of_a_scraped_engine_go_on_its_own_line(past: tuple[str, list[ScrapedPage]]) -> None:
    """The store's pages of an address that is a target are pages of that target, so no interval overlaps."""
    url, pages = past
    pipeline = Recording(url)
    followed = follower(pipeline)
    followed.scraped([Target(f"http://{INSTANCES[0]}/metrics", pipeline)])
    await caught_up(followed)
    names = Counter(name for _, name in pipeline.seen)
    assert names == {f"http://{INSTANCES[0]}/metrics": len(pages) // 2, INSTANCES[1]: len(pages) // 2}


async def test_a_store_that_does_not_answer_holds_nothing_up() -> None:
    """Where nobody listens, scraping and advice go ahead after some seconds."""
    followed = follower(Recording(f"http://127.0.0.1:{free_port()}"))
    await caught_up(followed)
    assert followed.state()["position_seconds"] is None


async def test_what_is_scraped_while_the_store_is_read_is_left_out(
    past: tuple[str, list[ScrapedPage]],
) -> None:
    """What a target was scraped for since the daemon last looked is its own too."""
    url, pages = past
    start, end = pages[200].time_seconds, pages[-1].time_seconds
    pipeline = Recording(url)
    followed = follower(pipeline)
    target = Target(INSTANCES[0], pipeline)
    followed.scraped([target])
    target.first_page_seconds, target.last_page_seconds = start, end
    await caught_up(followed)
    expected = [page for page in pages if page.instance != INSTANCES[0] or page.time_seconds < start]
    assert pipeline.seen == times(expected)


async def test_a_store_that_fails_in_the_middle_is_waited_for() -> None:
    """After longer than anybody waits for a store, one failure of it still ends no reading of the past."""
    asked: list[float] = []

    async def answer(_: web.Request) -> web.Response:
        asked.append(time.monotonic())
        if len(asked) == SLOW_ANSWERS:
            return web.Response(status=500)
        await asyncio.sleep(0.3 if len(asked) < SLOW_ANSWERS else 0)
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": []}})

    app = web.Application()
    app.router.add_post("/api/v1/query", answer)
    async with TestServer(app) as server:
        followed = follower(Recording(str(server.make_url(""))))
        await caught_up(followed)
    assert asked[SLOW_ANSWERS - 1] - asked[0] > 5
    assert followed.state()["position_seconds"] == pytest.approx(time.time(), abs=600)
