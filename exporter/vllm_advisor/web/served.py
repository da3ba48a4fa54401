"""What the web part is given to serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["Served"]


@dataclass(frozen=True, slots=True)
class Served:
    """The daemon as the web part sees it.

    Args:
        recommendations: the newest of each deployment, by name.
        changed_seconds: when a deployment's flags last changed, by name.
        ready: whether the first recommendations stand.
        reload: loads the configuration again; returns the problem, None when it went well.
        lifecycle: whether reload over HTTP is allowed.
        targets: each target's state as plain JSON values.
    """

    telemetry: Telemetry
    recommendations: Callable[[], Mapping[str, Recommendation]]
    changed_seconds: Callable[[], Mapping[str, float]]
    ready: Callable[[], bool]
    reload: Callable[[], Awaitable[str | None]]
    targets: Callable[[], list[dict[str, Any]]]
    lifecycle: bool = False
