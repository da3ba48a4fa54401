"""docs/metrics.md: every exported metric, from the tables that export them."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_advisor.sources.access_logs import Outcome
from vllm_advisor.web.metrics import PREFIX, TABLE
from vllm_advisor.web.targets import TARGETS_HELP, TARGETS_NAME
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["metrics_page"]

_HEAD = """\
# Exported metrics

Written by `make metrics` from `vllm_advisor/web/metrics.py` and `vllm_advisor/web/telemetry.py`.

Seconds, bytes, tokens, and ratios from 0 to 1. A value that is not known is absent, never 0 or NaN. \
Quantiles are of the type summary, as `promtool check metrics` wants it, without sum and count.

## Of each deployment

Label `deployment`, and those named.

| metric | type | more labels | what it is |
|---|---|---|---|
"""

_OWN = """
## The daemon's own

| metric | type | labels | what it is |
|---|---|---|---|
"""

_CHANGED = "recommendation_changed_timestamp_seconds"


def metrics_page(_runbook_base: str) -> dict[str, str]:
    """Return the page's text by its path from the repository's root."""
    rows = [_row(PREFIX + gauge.name, gauge.kind, gauge.labels, gauge.help) for gauge in TABLE]
    rows.append(_row(PREFIX + _CHANGED, "gauge", (), "When one of the recommended flags last changed."))
    rows.append(_row(TARGETS_NAME, "gauge", ("state",), TARGETS_HELP))
    return {"docs/metrics.md": _HEAD + "".join(rows) + _OWN + "".join(_own_rows())}


def _own_rows() -> Iterator[str]:
    telemetry = Telemetry()
    telemetry.log_lines.labels(Outcome.SERVED)
    for family in telemetry.registry.collect():
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        yield _row(name, family.type, tuple(sorted(labels)), family.documentation)


def _row(name: str, kind: str, labels: tuple[str, ...], text: str) -> str:
    named = ", ".join(f"`{label}`" for label in labels)
    return f"| `{name}` | {kind} | {named} | {text} |\n"
