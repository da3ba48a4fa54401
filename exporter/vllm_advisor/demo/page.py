"""The simulated engine's metrics page, rendered with the library that vLLM renders its own with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

from vllm_advisor.demo.counters import Histogram
from vllm_advisor.demo.engine import Engine
from vllm_advisor.demo.page_families import SHOWN, Shown, cache_config_labels
from vllm_advisor.sources.families import FAMILIES, PREFIXES, Kind

__all__ = ["CONTENT_TYPE", "render_page"]

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

_PREFIX = PREFIXES[0]
_ENGINE = {"engine": "0"}


class _EnginePage(CollectorRegistry):
    """One engine's families, in the shape that prometheus-client renders."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._labels = _ENGINE | {"model_name": engine.settings.model_name}

    def collect(self) -> Iterator[Metric]:
        for shown in SHOWN:
            value = shown.read(self._engine)
            if isinstance(value, Histogram):
                yield self._histogram(shown, value)
            else:
                yield self._scalar(shown, value if isinstance(value, Mapping) else {"": value})
        yield self._cache_config()

    def _scalar(self, shown: Shown, values: Mapping[str, float]) -> Metric:
        name = _PREFIX + shown.name
        of_kind = CounterMetricFamily if shown.kind is Kind.COUNTER else GaugeMetricFamily
        family = of_kind(name, shown.text)
        for label_value, value in values.items():
            more = {shown.label: label_value} if shown.label else {}
            family.add_sample(name, self._labels | more, value)
        return family

    def _histogram(self, shown: Shown, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(_PREFIX + shown.name, shown.text, labels=tuple(self._labels))
        bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
        family.add_metric(tuple(self._labels.values()), buckets, histogram.total)
        return family

    def _cache_config(self) -> Metric:
        (name,) = (_PREFIX + family.names[0] for family in FAMILIES if family.kind is Kind.INFO)
        family = GaugeMetricFamily(name, "Information of the LLMEngine CacheConfig")
        family.add_sample(name, _ENGINE | cache_config_labels(self._engine.settings), 1.0)
        return family


def render_page(engine: Engine) -> bytes:
    """Return the page of an engine as it stands."""
    return generate_latest(_EnginePage(engine))
