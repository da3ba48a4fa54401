"""A week of day-night traffic into a pipeline: pages every two minutes, a log line for each request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from support.advice_pages import START_SECONDS, TARGET, ScriptedEngine, Situation
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import LoggedRequest
from vllm_advisor.sources.access_logs.request import Outcome
from vllm_advisor.sources.page import PageReader

DAY_SECONDS = 86_400.0
PAGE_SECONDS = 120.0


@dataclass(frozen=True)
class Traffic:
    """What comes in.

    Args:
        peak: sequences running at midday; at midnight a fifth of that.
        output_median: tokens, lognormal with a deviation of 0.8, prompts of 900 likewise.
        night_output_factor: how much longer answers are at night.
        longer_from_seconds: from when on answers are twice as long.
    """

    peak: float = 60.0
    output_median: float = 180.0
    night_output_factor: float = 1.2
    longer_from_seconds: float = math.inf
    requests_per_page: float = 10.0


def evaluations(
    pipeline: DeploymentPipeline,
    traffic: Traffic,
    seconds: float,
    *,
    every_seconds: float = 600.0,
    seed: int = 0,
) -> Iterator[tuple[float, Recommendation]]:
    """Yield (seconds since the start, recommendation) as the traffic goes on.

    Time per output token is 12 ms and 0.8 ms for each sequence, a tenth up or down, so that a mean of 50 ms
    is met up to 47 sequences.
    """
    rng, reader = np.random.default_rng(seed), PageReader()
    engine = ScriptedEngine(max_model_len=16384, pool_tokens=1_000_000)
    for page in range(1, int(seconds / PAGE_SECONDS) + 1):
        passed = page * PAGE_SECONDS
        day = 0.5 - 0.5 * math.cos(2 * math.pi * passed / DAY_SECONDS)
        running = max(1, round(traffic.peak * (0.2 + 0.8 * day) * rng.normal(1, 0.1)))
        tpot_seconds = (0.012 + 0.0008 * running) * rng.normal(1, 0.1)
        lengths = ((round(rng.normal(900, 90)), round(rng.normal(200, 20)), 1.0),)
        situation = Situation(running, 0, running / 700, max(0.005, tpot_seconds), lengths=lengths)
        engine.run(situation, PAGE_SECONDS)
        now_seconds = START_SECONDS + passed
        for request in _requests(traffic, passed, day, rng):
            pipeline.observe_request(request)
        pipeline.observe_page(TARGET, now_seconds, reader.read(engine.page().encode(), TARGET).engines)
        if passed % every_seconds == 0:
            yield passed, pipeline.recommend(now_seconds)


def _requests(
    traffic: Traffic, passed: float, day: float, rng: np.random.Generator
) -> Iterator[LoggedRequest]:
    longer = 2.0 if passed > traffic.longer_from_seconds else 1.0
    median = traffic.output_median * longer * traffic.night_output_factor ** (1 - day)
    count = int(rng.poisson(traffic.requests_per_page * (0.2 + 0.8 * day)))
    prompts = np.minimum(np.exp(rng.normal(math.log(900), 0.8, count)), 12_000)
    outputs = np.minimum(np.exp(rng.normal(math.log(median), 0.8, count)), 4_000)
    for prompt, output in zip(prompts, outputs, strict=True):
        yield LoggedRequest(Outcome.SERVED, START_SECONDS + passed, int(prompt) + 1, int(output) + 1)
