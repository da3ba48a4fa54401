"""The rule files, and the same groups as a PrometheusRule object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from monitoring.advice_alerts import ADVICE_ALERTS
from monitoring.daemon_alerts import DAEMON_ALERTS
from monitoring.engine_alerts import ENGINE_ALERTS
from monitoring.interval_recordings import INTERVAL_RECORDINGS, INTERVAL_SECONDS
from monitoring.recording import DEPLOYMENT_RECORDINGS, ENGINE_RECORDINGS
from monitoring.rule import Alert, Recording

__all__ = ["ALERTS", "DEFAULT_RUNBOOK_BASE", "GENERATED", "dump", "rule_files"]

DEFAULT_RUNBOOK_BASE = "https://example.com/vllm-advisor/docs/runbooks"
"""Where docs/runbooks can be read; every site has its own: ``make rules RUNBOOK_BASE=https://…``."""

GENERATED = "# Written by `make rules dashboards`; change tools/monitoring, not this file.\n"

ALERTS = (*ADVICE_ALERTS, *DAEMON_ALERTS, *ENGINE_ALERTS)


def rule_files(runbook_base: str) -> dict[str, str]:
    """Return the text of every generated file about rules, by path from the repository's root."""
    advisor = _group("vllm-advisor", (*DEPLOYMENT_RECORDINGS, *ADVICE_ALERTS, *DAEMON_ALERTS), runbook_base)
    engines = _group("vllm-only", (*ENGINE_RECORDINGS, *ENGINE_ALERTS), runbook_base)
    intervals = _group("vllm-intervals", INTERVAL_RECORDINGS, runbook_base)
    intervals = {"name": intervals["name"], "interval": f"{INTERVAL_SECONDS}s", "rules": intervals["rules"]}
    return {
        "rules/vllm-intervals.yml": GENERATED + dump({"groups": [intervals]}),
        "rules/vllm-advisor.yml": GENERATED + dump({"groups": [advisor]}),
        "rules/vllm-only.yml": GENERATED + dump({"groups": [engines]}),
        "deploy/kubernetes/prometheusrule.yaml": GENERATED + dump(_prometheus_rule([advisor, engines])),
    }


def dump(document: dict[str, Any]) -> str:
    """Return YAML with PromQL of several lines as blocks."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


def _group(name: str, rules: Iterable[Recording | Alert], runbook_base: str) -> dict[str, Any]:
    """Return one group: its rules run in their order, so that alerts see what was recorded just before."""
    documents = [
        rule.document() if isinstance(rule, Recording) else rule.document(runbook_base) for rule in rules
    ]
    return {"name": name, "rules": documents}


def _prometheus_rule(groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "vllm-advisor", "labels": {"app.kubernetes.io/name": "vllm-advisor"}},
        "spec": {"groups": groups},
    }


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and every value where it is used."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
