"""`replay`: recorded pages and logs through the daemon's own pipeline, on their own clock."""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.commands.answer import print_recommendation
from vllm_advisor.config import AdvisorConfig, DeploymentConfig, config_for_target, load_config
from vllm_advisor.errors import EvidenceError
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import LoggedRequest, read_requests
from vllm_advisor.sources.capture import CapturedPage, read_captures
from vllm_advisor.sources.page import PageReader
from vllm_advisor.sources.target import metrics_url
from vllm_advisor.web.recommendation_json import document

__all__ = ["add_arguments", "replay", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `replay`."""
    parser.add_argument("captures", type=Path, nargs="+", metavar="CAPTURE", help="JSON lines, .gz or not")
    parser.add_argument("--config.file", dest="config_file", type=Path, help="configuration file")
    parser.add_argument(
        "--slo.tpot", dest="slo_tpot", help="without a file: time per output token, such as 40ms"
    )
    parser.add_argument("--slo.quantile", dest="slo_quantile", help="without a file: mean, or 0.5 to 0.999")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Replay and print; return 1 when no page of the captures is an engine's."""
    if arguments.config_file:
        config = load_config(arguments.config_file)
    else:
        config = config_for_target(
            "capture", slo_tpot=arguments.slo_tpot, slo_quantile=arguments.slo_quantile
        )
    recommendations = replay(config, arguments.captures)
    if arguments.json:
        print(json.dumps(document(recommendations), allow_nan=False))
    else:
        for recommendation in recommendations:
            print_recommendation(recommendation)
    return 0


def replay(config: AdvisorConfig, captures: Sequence[Path]) -> list[Recommendation]:
    """Return what the daemon would have recommended at the end of the captures.

    Raises:
        InputError: a file cannot be read.
        EvidenceError: no page of the captures is an engine's.
    """
    pipelines = [DeploymentPipeline(deployment) for deployment in config.deployments]
    by_url = {metrics_url(target): one for one in pipelines for target in one.config.targets}
    reader, now_seconds, engine_pages = PageReader(), 0.0, 0
    for time_seconds, event in heapq.merge(
        _pages(captures), _requests(config.deployments), key=itemgetter(0)
    ):
        now_seconds = time_seconds
        if isinstance(event, CapturedPage):
            pipeline = by_url.get(metrics_url(event.target), pipelines[0] if len(pipelines) == 1 else None)
            if pipeline is None:
                continue
            page = reader.read(event.text, event.target)
            pipeline.observe_page(event.target, time_seconds, page.engines)
            engine_pages += bool(page.engines)
        else:
            index, request = event
            pipelines[index].observe_request(request)
    if not engine_pages:
        raise EvidenceError("no page of the captures shows an engine of the configuration")
    return [pipeline.recommend(now_seconds) for pipeline in pipelines]


def _pages(captures: Sequence[Path]) -> Iterator[tuple[float, CapturedPage]]:
    for page in read_captures(captures):
        yield page.time_seconds, page


def _requests(deployments: Sequence[DeploymentConfig]) -> Iterator[tuple[float, tuple[int, LoggedRequest]]]:
    """Read every deployment's logs, in the order of their times."""
    found = [
        (request.time_seconds, (index, request))
        for index, deployment in enumerate(deployments)
        for log in deployment.access_logs
        for request in read_requests(log)
    ]
    return iter(sorted(found, key=itemgetter(0)))
