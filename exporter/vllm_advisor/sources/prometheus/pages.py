"""Puts a store's samples together again: what of one engine has one time was on one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from vllm_advisor.sources.engine_series import EngineSeries, Floats
from vllm_advisor.sources.page_layout import Layout, is_info, layout_of_series
from vllm_advisor.sources.prometheus.matrix import RawSeries
from vllm_advisor.sources.prometheus.recorded import page_name

__all__ = ["StoredPages", "StoredStretch"]

_OWN_LABELS = frozenset({"engine", "model_name", "le", "finished_reason", "sleep_state", "pid", "server"})
"""Labels that an engine's page has; the others are its target's."""
_INSTANCE = "instance"
_LAYOUTS_KEPT = 4096
_SERIES_KEPT = 300_000

_Labels = frozenset[tuple[str, str]]
_Key = tuple[str, _Labels]


class _Identity(NamedTuple):
    """Whose series it is and which; of an info, ``target`` holds all labels, its content among them."""

    instance: str
    target: _Labels
    key: _Key
    is_info: bool


@dataclass(frozen=True, slots=True)
class StoredStretch:
    """Successive pages of one target that have the same series.

    Args:
        instance: whose pages they were, as the store's label says.
    """

    instance: str
    engines: tuple[EngineSeries, ...]


class StoredPages:
    """Makes pages of samples, remembering series and the layouts of engines that look alike."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[_Key, ...], Layout] = {}
        self._identities: dict[bytes, _Identity] = {}
        self._keys: dict[_Key, _Key] = {}

    def stretches(self, series: Iterable[RawSeries], after_seconds: float) -> Iterator[StoredStretch]:
        """Yield the pages later than a time, those of one instance in their order.

        Of several scrapers that stored one instance (replicas of a Prometheus) that with most samples counts.
        """
        for instance, columns in self._by_instance(series).items():
            for keys, times, numbers in _alike(columns):
                first = int(np.searchsorted(times, after_seconds, side="right"))
                if first < len(times):
                    layout = self._layout(keys)
                    yield StoredStretch(instance, layout.series(times[first:], numbers[first:]))

    def _by_instance(self, series: Iterable[RawSeries]) -> dict[str, dict[_Key, RawSeries]]:
        """Return each instance's series by name and own labels."""
        scraped: dict[str, dict[_Labels, dict[_Key, RawSeries]]] = defaultdict(dict)
        infos: list[tuple[_Identity, RawSeries]] = []
        for one in series:
            identity = self._identities.get(one.metric) or self._identity(one.metric)
            if identity.is_info:
                infos.append((identity, one))
            else:
                columns = scraped[identity.instance].setdefault(identity.target, {})
                columns.setdefault(identity.key, one)
        for (instance, labels, (name, _), _), one in infos:
            for target, columns in scraped.get(instance, {}).items():
                if target <= labels:
                    columns.setdefault(self._shared((name, labels - target)), one)
        return {instance: max(targets.values(), key=_samples) for instance, targets in scraped.items()}

    def _identity(self, metric: bytes) -> _Identity:
        """Tell an engine's own labels from its target's."""
        if len(self._identities) >= _SERIES_KEPT:
            self._identities.clear()
            self._keys.clear()
        labels = msgspec.json.decode(metric, type=dict[str, str])
        name = page_name(labels.pop("__name__"))
        own = frozenset(item for item in labels.items() if item[0] in _OWN_LABELS)
        others = frozenset(labels.items()) - (frozenset() if is_info(name) else own)
        identity = _Identity(labels.get(_INSTANCE, ""), others, self._shared((name, own)), is_info(name))
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


def _alike(columns: Mapping[_Key, RawSeries]) -> Iterator[tuple[tuple[_Key, ...], Floats, Floats]]:
    """Yield successive times at which the same series have a sample: these, the times, a row for each."""
    keys, series = tuple(columns), list(columns.values())
    times = series[0].times
    if all(one.times is times for one in series):
        yield keys, times, np.concatenate([one.values for one in series]).reshape(len(series), -1).T
        return
    times = np.unique(np.concatenate([one.times for one in series]))
    numbers, has = np.zeros((len(times), len(series))), np.zeros((len(times), len(series)), np.bool_)
    for column, one in enumerate(series):
        at = np.searchsorted(times, one.times)
        numbers[at, column], has[at, column] = one.values, True
    changes = np.flatnonzero((has[1:] != has[:-1]).any(axis=1)) + 1
    for start, end in pairwise((0, *changes.tolist(), len(times))):
        there = has[start]
        present = tuple(key for key, is_there in zip(keys, there, strict=True) if is_there)
        yield present, times[start:end], numbers[start:end, there]
