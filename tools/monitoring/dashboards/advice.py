"""The table of advice that both dashboards show."""

from __future__ import annotations

from grafana_foundation_sdk.builders.table import Panel

from monitoring.dashboards.panels import Column, Link, Query, table_of

__all__ = ["advice_table"]


def advice_table(selector: str, runbook_base: str) -> Panel:
    """Return the advice that is given now, each with its runbook.

    Args:
        selector: of the deployments, with braces.
        runbook_base: where docs/runbooks can be read.
    """
    runbook = Link("Runbook of ${__value.text}", f"{runbook_base.rstrip('/')}/${{__value.raw}}.md")
    given = f"max by (deployment, code, severity) (vllm_advisor_advice{selector}) == 1"
    return table_of(
        "Advice",
        "What the advisor advises now. A code leads to its runbook; the sentences with their numbers are on "
        "the "
        "advisor's status page.",
        [
            Column("Deployment", "deployment"),
            Column("Advice", "code", link=runbook),
            Column("Severity", "severity"),
        ],
        of_labels=[Query(given)],
    )
