"""Data-parallel ranks on ports of their own and ranks behind one port are the same engines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.demo.engine import Engine, EngineSettings, StepLaw
from vllm_advisor.demo.page import render_page
from vllm_advisor.demo.traffic import Swing, Traffic
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.page import PageReader

RANKS = ("0", "1")
BLOCKS = 40_960
SECONDS, SCRAPE_SECONDS = 60.0, 0.5

RanksPages = list[tuple[float, list[str]]]
"""Times, and at each the page of every rank."""


@pytest.fixture(scope="module")
def ranks_pages() -> RanksPages:
    """Run two engines with traffic of their own, each showing its rank as label."""
    random = [np.random.default_rng(seed) for seed in range(len(RANKS))]
    traffic = [Traffic(Swing(), one, 0.0) for one in random]
    engines = [
        Engine(EngineSettings(num_gpu_blocks=BLOCKS), StepLaw(), lambda: 1.0, 0.0) for _ in range(len(RANKS))
    ]
    pages = []
    for now_seconds in np.arange(SCRAPE_SECONDS, SECONDS, SCRAPE_SECONDS).tolist():
        for engine, arriving in zip(engines, traffic, strict=True):
            for request in arriving.arrivals_until(now_seconds):
                engine.submit(request)
            engine.advance_to(now_seconds)
        shown = (render_page(engine).decode() for engine in engines)
        pages.append(
            (
                now_seconds,
                [
                    page.replace('engine="0"', f'engine="{rank}"')
                    for rank, page in zip(RANKS, shown, strict=True)
                ],
            )
        )
    return pages


def behind_one_port(pages: Iterable[str]) -> str:
    """Return the one page of a front end: every family once, each rank's info with the blocks of all."""
    families = [page.split("# HELP ") for page in pages]
    text = "# HELP ".join(
        first
        + "".join(line for rest in others for line in rest.splitlines(keepends=True)[1:] if line[0] == "v")
        for first, *others in zip(*families, strict=True)
    )
    return text.replace(f'num_gpu_blocks="{BLOCKS}"', f'num_gpu_blocks="{BLOCKS * len(families)}"')


def before_024(page: str) -> str:
    """Return the page of a release that does not tell the pool in tokens."""
    return re.sub(r'(kv_cache_size_tokens|kv_cache_max_concurrency)="[^"]*",?', "", page)


def recommended(pages: Iterable[tuple[float, dict[str, str]]]) -> Recommendation:
    """Return what the pages of some targets lead to."""
    config = {
        "name": "chat",
        "static_configs": [{"targets": ["vllm:8000"]}],
        "slo": {"tpot": "3ms", "quantile": "mean"},
        "engine": {"max_num_seqs": 256, "max_model_len": 131_072},
    }
    pipeline, reader = DeploymentPipeline(DeploymentConfig.model_validate(config)), PageReader()
    for now_seconds, targets in pages:
        for target, page in targets.items():
            read = reader.read(page.encode(), target)
            assert not read.problems
            pipeline.observe_page(target, now_seconds, read.engines)
    return pipeline.recommend(SECONDS)


@pytest.mark.parametrize("release", [str, before_024])
def test_ranks_are_engines_however_they_are_served(
    ranks_pages: RanksPages, release: Callable[[str], str]
) -> None:
    """The pool is one rank's, though every rank's series has the blocks of all; nothing else differs."""
    ports = recommended(
        (time_seconds, {f"vllm:800{rank}": release(page) for rank, page in zip(RANKS, pages, strict=True)})
        for time_seconds, pages in ranks_pages
    )
    port = recommended(
        (time_seconds, {"vllm:8000": release(behind_one_port(pages))}) for time_seconds, pages in ranks_pages
    )
    for one in (ports, port):
        assert len(one.snapshot.engines) == len(RANKS)
        assert {engine.facts.num_gpu_blocks for engine in one.snapshot.engines} == {BLOCKS}
    assert ports.latency.sequences is not None
    assert ports.latency == port.latency
    assert ports.memory == port.memory
    assert ports.context == port.context
    assert (ports.max_num_seqs, ports.max_model_len) == (port.max_num_seqs, port.max_model_len)
