"""What a recording rule and an alert are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm_advisor.ceilings.advice import Severity

__all__ = ["Alert", "Recording"]


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording rule, named ``level:metric:operations``."""

    record: str
    expr: str

    def document(self) -> dict[str, Any]:
        """Return it as Prometheus reads it."""
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Args:
        name: also the name of its runbook page.
        expr: PromQL.
        held: how long it must hold, such as ``15m``.
        severity: what Alertmanager routes by.
        summary: one sentence without numbers.
        description: a template with the numbers.
    """

    name: str
    expr: str
    held: str
    severity: Severity
    summary: str
    description: str

    def document(self, runbook_base: str) -> dict[str, Any]:
        """Return it as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.held,
            "labels": {"severity": str(self.severity)},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbook_base.rstrip('/')}/{self.name}.md",
            },
        }
