"""`replay`: recorded pages and logs through the daemon's own pipeline, on their own clock."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from vllm_advisor.addresses import metrics_url
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.commands.answer import print_recommendation
from vllm_advisor.config import AdvisorConfig, config_for_target, load_config
from vllm_advisor.errors import EvidenceError, UsageError
from vllm_advisor.evidence.deployment import Succession
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import FUTURE_SECONDS, LoggedRequest, read_requests
from vllm_advisor.sources.capture import read_captures
from vllm_advisor.sources.page import PageReader
from vllm_advisor.web.recommendation_json import document, vllm_args

__all__ = ["add_arguments", "add_config_arguments", "config_of", "replay", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `replay`."""
    told = "JSON lines, gzipped or not; - is standard input"
    parser.add_argument("captures", type=Path, nargs="+", metavar="CAPTURE", help=told)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_config_arguments(parser)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say what captures are held against."""
    parser.add_argument("--config.file", dest="config_file", type=Path, help="configuration file")
    parser.add_argument(
        "--slo.tpot", dest="slo_tpot", help="without a file: time per output token, such as 40ms"
    )
    parser.add_argument("--slo.quantile", dest="slo_quantile", help="without a file: mean, or 0.5 to 0.999")


def config_of(arguments: argparse.Namespace) -> AdvisorConfig:
    """Return the configuration that the flags name, or that of one engine with the target they give.

    Raises:
        InputError: the file is wrong.
        UsageError: a flag is.
    """
    if arguments.config_file:
        if arguments.slo_tpot is not None or arguments.slo_quantile is not None:
            raise UsageError("a configuration file has its own --slo.tpot and --slo.quantile")
        return load_config(arguments.config_file)
    return config_for_target("capture", slo_tpot=arguments.slo_tpot, slo_quantile=arguments.slo_quantile)


def run(arguments: argparse.Namespace) -> int:
    """Replay and print.

    Raises:
        InputError: a file or a flag is wrong.
        EvidenceError: no deployment got a value for either flag; what there is has been printed.
    """
    recommendations = replay(config_of(arguments), arguments.captures)
    if arguments.json:
        print(json.dumps(document(recommendations), allow_nan=False))
    else:
        for recommendation in recommendations:
            print_recommendation(recommendation)
    if not any(map(vllm_args, recommendations)):
        raise EvidenceError("the evidence does not carry a number for either flag")
    return 0


def replay(config: AdvisorConfig, captures: Sequence[Path]) -> list[Recommendation]:
    """Return what the daemon would have recommended at the end of the captures and logs.

    Raises:
        InputError: a file cannot be read.
        EvidenceError: no page of the captures is an engine's.
    """
    pipelines = [DeploymentPipeline(deployment) for deployment in config.deployments]
    reader, seen, now_seconds = PageReader(), set[DeploymentPipeline](), 0.0
    logged = deque(_logged(pipelines))
    for captured in read_captures(captures):
        while logged and logged[0].time_seconds <= captured.time_seconds:
            logged.popleft().observe()
        pipeline = _pipeline_of(captured.target, pipelines)
        if pipeline is not None:
            page = reader.read(captured.text, captured.target)
            succession = pipeline.observe_page(captured.target, captured.time_seconds, page.engines)
            if page.engines and (succession is not Succession.SAME or pipeline not in seen):
                seen.add(pipeline)
                pipeline.settle(captured.time_seconds)
        now_seconds = max(now_seconds, captured.time_seconds)
    if not seen:
        raise EvidenceError("no page of the captures shows an engine of the configuration")
    now_seconds = _take_later(logged, now_seconds)
    return [pipeline.recommend(now_seconds) for pipeline in pipelines]


@dataclass(frozen=True, slots=True)
class _Logged:
    time_seconds: float
    pipeline: DeploymentPipeline
    request: LoggedRequest

    def observe(self) -> None:
        self.pipeline.observe_request(self.request)


def _take_later(logged: Iterable[_Logged], last_page_seconds: float) -> float:
    """Take in what was logged after the last page, and at no known time; return when the newest was.

    What is dated after both the last page and today, by more than clocks differ, is left out.
    """
    latest_seconds = max(last_page_seconds, time.time()) + FUTURE_SECONDS
    newest_seconds = last_page_seconds
    for one in logged:
        if one.time_seconds <= latest_seconds:
            newest_seconds = max(newest_seconds, one.time_seconds)
            one.observe()
        elif math.isinf(one.time_seconds):
            replace(one, request=replace(one.request, time_seconds=newest_seconds)).observe()
    return newest_seconds


def _pipeline_of(target: str, pipelines: Sequence[DeploymentPipeline]) -> DeploymentPipeline | None:
    """Return the deployment that lists a target; an only deployment takes every page."""
    if len(pipelines) == 1:
        return pipelines[0]
    url = metrics_url(target)
    return next((one for one in pipelines if url in map(metrics_url, one.config.targets)), None)


def _logged(pipelines: Sequence[DeploymentPipeline]) -> list[_Logged]:
    """Read every deployment's logs, in the order of their times, what has none at the end."""
    found = [
        _Logged(request.time_seconds, pipeline, request)
        for pipeline in pipelines
        for log in pipeline.config.access_logs
        for request in read_requests(log, now_seconds=math.inf)
        if request.time_seconds is not None
    ]
    return sorted(found, key=attrgetter("time_seconds"))
