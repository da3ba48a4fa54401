"""The dashboards as files, and as the ConfigMaps that Grafana's sidecar picks up."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from monitoring.dashboards.deployment import deployment
from monitoring.dashboards.fleet import fleet
from monitoring.rule_files import GENERATED, dump

__all__ = ["dashboard_files"]


def dashboard_files(runbook_base: str) -> dict[str, str]:
    """Return the text of every generated file about dashboards, by path from the repository's root."""
    boards = {"fleet.json": fleet(runbook_base), "deployment.json": deployment(runbook_base)}
    texts = {
        name: json.dumps(board, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
        for name, board in boards.items()
    }
    config_maps = "---\n".join(dump(_config_map(name, text)) for name, text in texts.items())
    return {f"grafana/dashboards/{name}": text for name, text in texts.items()} | {
        "deploy/kubernetes/dashboards.yaml": GENERATED + config_maps
    }


def _config_map(name: str, text: str) -> dict[str, Any]:
    stem = name.removesuffix(".json")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"vllm-advisor-dashboard-{stem}",
            "labels": {"app.kubernetes.io/name": "vllm-advisor", "grafana_dashboard": "1"},
        },
        "data": {f"vllm-advisor-{name}": text},
    }
