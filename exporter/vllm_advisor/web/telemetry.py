"""What the daemon exports of itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from vllm_advisor import __version__
from vllm_advisor.sources.scrape import Outcome
from vllm_advisor.web.metrics import PREFIX

__all__ = ["Telemetry"]


class Telemetry:
    """The daemon's own counters, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.scrapes = Counter(
            PREFIX + "scrapes", "Scrapes of engines, by outcome.", ["outcome"], registry=self.registry
        )
        self.scrape_duration_seconds = Histogram(
            PREFIX + "scrape_duration_seconds",
            "Time from asking an engine for its page to having read it.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        self.log_lines = Counter(
            PREFIX + "log_lines", "Access-log lines read, by outcome.", ["outcome"], registry=self.registry
        )
        self.reload_successful = Gauge(
            PREFIX + "config_last_reload_successful",
            "Whether the last reload of the configuration succeeded.",
            registry=self.registry,
        )
        self.reload_success_timestamp_seconds = Gauge(
            PREFIX + "config_last_reload_success_timestamp_seconds",
            "When the configuration was last loaded.",
            registry=self.registry,
        )
        Info(PREFIX + "build", "The version of vllm-advisor.", registry=self.registry).info(
            {"version": __version__}
        )
        for outcome in Outcome:
            self.scrapes.labels(outcome)
