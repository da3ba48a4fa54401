"""What a PromQL expression asks for, and what there is to ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql

from vllm_advisor.sources.families import FAMILIES, PREFIXES, Kind
from vllm_advisor.web.metrics import PREFIX, TABLE
from vllm_advisor.web.targets import TARGETS_NAME
from vllm_advisor.web.telemetry import Telemetry

ROOT = Path(__file__).parents[2]
PROMETHEUS_OWN = {"up", "ALERTS"}


def selectors(expr: str) -> Iterator[promql.VectorSelector]:
    """Yield every selector of an expression."""
    found: list[promql.VectorSelector] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        if isinstance(node, promql.MatrixSelector):
            found.append(node.vector_selector)
        return True

    promql.walk(promql.parse(expr), visit)
    yield from found


def names(expr: str) -> set[str]:
    """Return the names of the metrics that an expression asks for."""
    return {selector.name for selector in selectors(expr)}


def exported_names() -> set[str]:
    """Return every name that the advisor or an engine puts on its page."""
    own = {PREFIX + gauge.name for gauge in TABLE} | {
        PREFIX + "recommendation_changed_timestamp_seconds",
        TARGETS_NAME,
    }
    for family in Telemetry().registry.collect():
        own |= {sample.name for sample in family.samples} | {family.name + "_total"}
    engines = set()
    for family in FAMILIES:
        suffixes = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.TOTALS: ("_sum", "_count")}
        for suffix in suffixes.get(family.kind, ("",)):
            engines |= {prefix + name + suffix for prefix in PREFIXES for name in family.names}
    return own | engines


def dashboards() -> dict[str, dict[str, Any]]:
    """Return the committed dashboards by file name."""
    folder = ROOT / "grafana/dashboards"
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def filled(expr: str, **variables: str) -> str:
    """Return a dashboard's query with its variables filled in as Grafana would."""
    for name, value in ({"__rate_interval": "10s"} | variables).items():
        expr = re.sub(rf"\${name}\b|\${{{name}}}", value, expr)
    return expr
