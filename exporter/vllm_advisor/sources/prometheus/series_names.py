"""Which of a store's series were on one page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.page_layout import WANTED_NAMES, is_info
from vllm_advisor.sources.prometheus.recorded import page_name

__all__ = ["ScrapedTarget", "SeriesKey", "SeriesNames"]

_OWN_LABELS = frozenset({"engine", "model_name", "le", "finished_reason", "sleep_state", "pid", "server"})
"""Labels that an engine's page has; the others are its target's."""
_INSTANCE = "instance"
_REPLICA_LABELS = frozenset({"replica", "prometheus_replica", "__replica__"})
"""What tells stores of the same scraped targets apart."""
_WANTED = frozenset(WANTED_NAMES)
_SERIES_KEPT = 300_000

_Labels = frozenset[tuple[str, str]]
SeriesKey = tuple[str, _Labels]
"""Name and own labels."""


class _Identity(NamedTuple):
    """Whose series it is and which; of an info, ``target`` holds all labels, its content among them."""

    instance: str
    target: _Labels
    key: SeriesKey


@dataclass(frozen=True, slots=True, eq=False)
class ScrapedTarget:
    """The series that one scraper stored of one instance.

    Args:
        keys: which they are.
        series: where each stands among all.
    """

    keys: tuple[SeriesKey, ...]
    series: NDArray[np.intp]


class SeriesNames:
    """Tells series apart by their labels, remembering them: a store's answers mostly have the same ones."""

    def __init__(self) -> None:
        self._metrics: list[bytes] = []
        self._targets: dict[str, list[ScrapedTarget]] = {}
        self._identities: dict[bytes, _Identity] = {}
        self._keys: dict[SeriesKey, SeriesKey] = {}

    def targets(self, metrics: list[bytes]) -> dict[str, list[ScrapedTarget]]:
        """Return what was scraped of each instance, given every series' labels as JSON."""
        if metrics != self._metrics:
            self._metrics, self._targets = metrics, self._told_apart(metrics)
        return self._targets

    def _told_apart(self, metrics: list[bytes]) -> dict[str, list[ScrapedTarget]]:
        scraped: dict[str, dict[_Labels, dict[SeriesKey, int]]] = defaultdict(dict)
        infos: list[tuple[_Identity, int]] = []
        for index, metric in enumerate(metrics):
            identity = self._identities.get(metric) or self._identity(metric)
            if identity is None:
                continue
            if is_info(identity.key[0]):
                infos.append((identity, index))
            else:
                scraped[identity.instance].setdefault(identity.target, {}).setdefault(identity.key, index)
        for (instance, labels, (name, _)), index in infos:
            for target, series in scraped.get(instance, {}).items():
                if target <= labels:
                    series.setdefault(self._shared((name, labels - target)), index)
        found: dict[str, list[ScrapedTarget]] = defaultdict(list)
        for instance, targets in scraped.items():
            for labels, series in targets.items():
                one = ScrapedTarget(tuple(series), np.array([*series.values()], np.intp))
                found[instance or _named_by_others(labels)].append(one)
        return found

    def _identity(self, metric: bytes) -> _Identity | None:
        """Tell an engine's own labels from its target's; None for a series that is not wanted."""
        if len(self._identities) >= _SERIES_KEPT:
            self._identities.clear()
            self._keys.clear()
        labels = msgspec.json.decode(metric, type=dict[str, str])
        name = page_name(labels.pop("__name__", ""))
        if name not in _WANTED:
            return None
        own = frozenset(item for item in labels.items() if item[0] in _OWN_LABELS)
        others = frozenset(labels.items()) - (frozenset() if is_info(name) else own)
        identity = _Identity(labels.get(_INSTANCE, ""), others, self._shared((name, own)))
        self._identities[metric] = identity
        return identity

    def _shared(self, key: SeriesKey) -> SeriesKey:
        return self._keys.setdefault(key, key)


def _named_by_others(labels: _Labels) -> str:
    """Return what an engine is called whose store has no ``instance`` label."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels) if name not in _REPLICA_LABELS)
