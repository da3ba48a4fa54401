"""How many targets of each deployment can be read: no label names a target, so there are few series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from vllm_advisor.sources.scrape import WELL
from vllm_advisor.web.metrics import PREFIX

__all__ = ["TARGETS_HELP", "TARGETS_NAME", "TargetCollector"]

TARGETS_NAME = PREFIX + "targets"
TARGETS_HELP = "Targets by whether their last scrape gave an engine's page without a problem."


class TargetCollector(Collector):
    """Counts targets afresh on each scrape; one that was not scraped yet is not counted.

    Args:
        targets: gives each target's state, as ``/targets`` shows it.
    """

    def __init__(self, targets: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self._targets = targets

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the one family, if there are targets."""
        counts: dict[str, Counter[str]] = {}
        for target in self._targets():
            if target["outcome"] is not None:
                state = "up" if target["outcome"] in WELL else "down"
                counts.setdefault(target["deployment"], Counter())[state] += 1
        family = GaugeMetricFamily(TARGETS_NAME, TARGETS_HELP, labels=("deployment", "state"))
        for deployment, states in counts.items():
            for state in ("up", "down"):
                family.add_metric((deployment, state), states[state])
        if family.samples:
            yield family

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: what is exported depends on what is known."""
        return []
