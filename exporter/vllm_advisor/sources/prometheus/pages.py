"""Puts a store's samples together again: what of one engine has one time was on one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.page_layout import Layout, is_info, layout_of_series
from vllm_advisor.sources.prometheus.api import RawSeries

__all__ = ["StoredPage", "StoredPages"]

_OWN_LABELS = frozenset(
    {"engine", "model_name", "le", "finished_reason", "sleep_state", "pid", "server", "__name__"}
)
"""Labels that an engine's page has; the others are its target's."""
_INSTANCE = "instance"
_LAYOUTS_KEPT = 4096

_Key = tuple[str, frozenset[tuple[str, str]]]
_Values = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One engine's page as far as it is read.

    Args:
        time_seconds: Unix time of the scrape.
        instance: whose page it was, as the store's label says.
    """

    time_seconds: float
    instance: str
    engines: tuple[EngineSample, ...]


class StoredPages:
    """Makes pages of samples, remembering the layouts of engines that look alike."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[_Key, ...], Layout] = {}

    def pages(self, series: Iterable[RawSeries]) -> list[StoredPage]:
        """Return every page in the order of time.

        Of several scrapers that stored one instance (replicas of a Prometheus) that with most samples counts.
        """
        pages = [
            StoredPage(time_seconds, instance, self._layout(keys).samples(numbers))
            for instance, columns in _by_instance(series).items()
            for time_seconds, keys, numbers in _rows(columns)
        ]
        return sorted((page for page in pages if page.engines), key=attrgetter("time_seconds"))

    def _layout(self, keys: tuple[_Key, ...]) -> Layout:
        layout = self._layouts.get(keys)
        if layout is None:
            if len(self._layouts) >= _LAYOUTS_KEPT:
                self._layouts.clear()
            layout = layout_of_series((name, dict(labels)) for name, labels in keys)
            self._layouts[keys] = layout
        return layout


def _by_instance(series: Iterable[RawSeries]) -> dict[str, dict[_Key, _Values]]:
    """Return each instance's series by name and own labels."""
    scraped: dict[str, dict[frozenset[tuple[str, str]], dict[_Key, _Values]]] = defaultdict(dict)
    infos: list[RawSeries] = []
    for one in series:
        if is_info(one.metric["__name__"]):
            infos.append(one)
            continue
        own, target = _apart(one.metric)
        columns = scraped[one.metric.get(_INSTANCE, "")].setdefault(target, {})
        columns.setdefault((one.metric["__name__"], own), one.values)
    for one in infos:
        labels = frozenset(one.metric.items())
        for target, columns in scraped.get(one.metric.get(_INSTANCE, ""), {}).items():
            if target <= labels:
                content = frozenset(item for item in labels - target if item[0] != "__name__")
                columns.setdefault((one.metric["__name__"], content), one.values)
    return {instance: max(targets.values(), key=_samples) for instance, targets in scraped.items()}


def _apart(metric: Mapping[str, str]) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Tell an engine's own labels from its target's."""
    own = frozenset(item for item in metric.items() if item[0] in _OWN_LABELS and item[0] != "__name__")
    return own, frozenset(item for item in metric.items() if item[0] not in _OWN_LABELS)


def _samples(columns: Mapping[_Key, _Values]) -> int:
    return sum(map(len, columns.values()))


def _rows(columns: Mapping[_Key, _Values]) -> Iterator[tuple[float, tuple[_Key, ...], Sequence[float]]]:
    """Yield each time with the series that have a sample then, and their values."""
    keys = tuple(columns)
    series = list(columns.values())
    times = [time for time, _ in series[0]]
    if all([time for time, _ in values] == times for values in series):
        rows = zip(*([value for _, value in values] for values in series), strict=True)
        yield from ((time, keys, numbers) for time, numbers in zip(times, rows, strict=True))
        return
    present: dict[float, list[tuple[_Key, float]]] = defaultdict(list)
    for key, values in columns.items():
        for time, value in values:
            present[time].append((key, value))
    for time in sorted(present):
        yield time, tuple(key for key, _ in present[time]), [value for _, value in present[time]]
