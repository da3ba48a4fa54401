"""What the web part is given to serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.config import AccessLogFormat, AdvisorConfig
from vllm_advisor.evidence.history import HistoryPoint
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import Outcome
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["DEFAULT_LISTEN_ADDRESS", "SERVED", "Served", "ServedDeployment", "WebOptions"]

DEFAULT_LISTEN_ADDRESS = ":10838"


@dataclass(frozen=True, slots=True)
class WebOptions:
    """What the command line says of serving.

    Args:
        listen_address: ``host:port``; no host means all of them, port 0 any free one.
        external_url: where people reach the daemon, whose path comes before every door's; None for the root.
        web_config_path: TLS and users, in the format of Prometheus exporters.
        lifecycle: whether ``POST /-/reload`` is allowed.
        api_writes: whether the API takes sweeps and requests.
    """

    listen_address: str = DEFAULT_LISTEN_ADDRESS
    external_url: str | None = None
    web_config_path: Path | None = None
    lifecycle: bool = False
    api_writes: bool = False


@dataclass(frozen=True, slots=True)
class ServedDeployment:
    """One deployment as the web part sees it.

    Args:
        pipeline: its evidence, and what works the rest out.
        recommendation: the newest.
        history: what was recommended before, earliest first.
    """

    pipeline: DeploymentPipeline
    recommendation: Recommendation
    history: tuple[HistoryPoint, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """The daemon as the web part sees it.

    Args:
        config: the configuration in force.
        deployments: those with a recommendation, by name.
        recommendations: the newest of each deployment, by name.
        changed_seconds: when a deployment's flags last changed, by name.
        ready: whether the first recommendations stand.
        reload: loads the configuration again; returns the problem, None when it went well.
        targets: each target's state as plain JSON values.
        reevaluate: works a deployment's recommendation out afresh, by name.
        push: takes access-log lines of a format in, by deployment; returns how many had which outcome, None
            while the configuration is being replaced. Raises KeyError for a name that there is not.
    """

    telemetry: Telemetry
    options: WebOptions
    config: Callable[[], AdvisorConfig]
    deployments: Callable[[], Mapping[str, ServedDeployment]]
    recommendations: Callable[[], Mapping[str, Recommendation]]
    changed_seconds: Callable[[], Mapping[str, float]]
    ready: Callable[[], bool]
    reload: Callable[[], Awaitable[str | None]]
    targets: Callable[[], list[dict[str, Any]]]
    reevaluate: Callable[[str], None]
    push: Callable[[str, bytes, AccessLogFormat], Awaitable[Mapping[Outcome, int] | None]]


SERVED = web.AppKey("served", Served)
