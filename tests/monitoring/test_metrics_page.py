"""docs/metrics.md: complete, and fresh."""

from __future__ import annotations

from monitoring.metrics_page import metrics_page
from support.monitoring_stack import Stack, wait_for
from support.promql import ROOT


def test_the_page_is_fresh() -> None:
    """What is committed is what `make metrics` writes."""
    for name, text in metrics_page("").items():
        assert text == (ROOT / name).read_text(encoding="utf-8"), f"{name}: run `make metrics`"


def test_the_page_names_all_that_prometheus_found(stack: Stack) -> None:
    """No series of the running daemon is without its line."""
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    wait_for(lambda: stack.prometheus.query("vllm_advisor_advice"), "a scrape of the daemon")
    found = stack.prometheus.query('count by (__name__) ({__name__=~"vllm_advisor_.*"})')
    names = {series["metric"]["__name__"] for series in found}
    series_of_histograms = ("_bucket", "_sum", "_count")

    for name in names:
        if not name.endswith(("_created", *series_of_histograms)):
            assert f"`{name}`" in page
