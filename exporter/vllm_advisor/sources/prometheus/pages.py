"""Puts a store's samples together again: what of one engine has one time was on one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import msgspec

from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.page_layout import Layout, is_info, layout_of_series
from vllm_advisor.sources.prometheus.api import RawSeries
from vllm_advisor.sources.prometheus.recorded import page_name

__all__ = ["StoredPage", "StoredPages"]

_OWN_LABELS = frozenset({"engine", "model_name", "le", "finished_reason", "sleep_state", "pid", "server"})
"""Labels that an engine's page has; the others are its target's."""
_INSTANCE = "instance"
_LAYOUTS_KEPT = 4096
_SERIES_KEPT = 300_000

_Labels = frozenset[tuple[str, str]]
_Key = tuple[str, _Labels]
_Stretch = tuple[tuple[_Key, ...], Sequence[bytes], Sequence[Sequence[float]]]
"""Series, times, and each series' values at them."""


class _Identity(NamedTuple):
    """Whose series it is and which; of an info, ``target`` holds all labels, its content among them."""

    instance: str
    target: _Labels
    key: _Key


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
    """Makes pages of samples, remembering series and the layouts of engines that look alike."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[_Key, ...], Layout] = {}
        self._identities: dict[bytes, _Identity] = {}
        self._keys: dict[_Key, _Key] = {}

    def pages(self, series: Iterable[RawSeries]) -> list[StoredPage]:
        """Return every page in the order of time.

        Of several scrapers that stored one instance (replicas of a Prometheus) that with most samples counts.
        """
        pages = [
            StoredPage(float(moment), instance, engines)
            for instance, columns in self._by_instance(series).items()
            for keys, moments, values in _stretches(columns)
            for moment, engines in zip(moments, self._layout(keys).samples(values), strict=False)
        ]
        return sorted(pages, key=attrgetter("time_seconds"))

    def _by_instance(self, series: Iterable[RawSeries]) -> dict[str, dict[_Key, RawSeries]]:
        """Return each instance's series by name and own labels."""
        scraped: dict[str, dict[_Labels, dict[_Key, RawSeries]]] = defaultdict(dict)
        infos: list[tuple[_Identity, RawSeries]] = []
        for one in series:
            identity = self._identity(one.metric)
            if is_info(identity.key[0]):
                infos.append((identity, one))
            else:
                columns = scraped[identity.instance].setdefault(identity.target, {})
                columns.setdefault(identity.key, one)
        for (instance, labels, (name, _)), one in infos:
            for target, columns in scraped.get(instance, {}).items():
                if target <= labels:
                    columns.setdefault(self._shared((name, labels - target)), one)
        return {instance: max(targets.values(), key=_samples) for instance, targets in scraped.items()}

    def _identity(self, metric: bytes) -> _Identity:
        """Tell an engine's own labels from its target's."""
        identity = self._identities.get(metric)
        if identity is None:
            if len(self._identities) >= _SERIES_KEPT:
                self._identities.clear()
                self._keys.clear()
            labels = msgspec.json.decode(metric, type=dict[str, str])
            name = page_name(labels.pop("__name__"))
            own = frozenset(item for item in labels.items() if item[0] in _OWN_LABELS)
            others = frozenset(labels.items()) - (frozenset() if is_info(name) else own)
            identity = _Identity(labels.get(_INSTANCE, ""), others, self._shared((name, own)))
            self._identities[metric] = identity
        return identity

    def _shared(self, key: _Key) -> _Key:
        return self._keys.setdefault(key, key)

    def _layout(self, keys: tuple[_Key, ...]) -> Layout:
        layout = self._layouts.get(keys)
        if layout is None:
            if len(self._layouts) >= _LAYOUTS_KEPT:
                self._layouts.clear()
            layout = layout_of_series((name, dict(labels)) for name, labels in keys)
            self._layouts[keys] = layout
        return layout


def _samples(columns: Mapping[_Key, RawSeries]) -> int:
    return sum(len(series.values) for series in columns.values())


def _stretches(columns: Mapping[_Key, RawSeries]) -> Iterator[_Stretch]:
    """Yield the times at which the same series have a sample, with their values; one stretch in general."""
    keys, series = tuple(columns), list(columns.values())
    times = series[0].times
    if all(one.times is times or one.times == times for one in series):
        yield keys, times, [one.values for one in series]
        return
    present: dict[bytes, list[tuple[_Key, float]]] = defaultdict(list)
    for key, one in columns.items():
        for moment, value in zip(one.times, one.values, strict=True):
            present[moment].append((key, value))
    alike: dict[tuple[_Key, ...], list[bytes]] = defaultdict(list)
    for moment, samples in present.items():
        alike[tuple(key for key, _ in samples)].append(moment)
    for keys, moments in alike.items():
        rows = ([value for _, value in present[moment]] for moment in moments)
        yield keys, moments, list(zip(*rows, strict=True))
