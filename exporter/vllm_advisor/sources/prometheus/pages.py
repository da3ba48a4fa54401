"""Puts a store's samples together again: what of one engine has one time was on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vllm_advisor.sources.engine_series import EngineSeries, Floats
from vllm_advisor.sources.page_layout import Layout, layout_of_series
from vllm_advisor.sources.prometheus.matrix import Matrix
from vllm_advisor.sources.prometheus.series_names import ScrapedTarget, SeriesKey, SeriesNames

__all__ = ["StoredPages", "StoredStretch"]

_LAYOUTS_KEPT = 4096


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
        self._names = SeriesNames()
        self._layouts: dict[tuple[SeriesKey, ...], Layout] = {}

    def stretches(self, matrix: Matrix, after_seconds: float) -> Iterator[StoredStretch]:
        """Yield the pages later than a time, those of one instance in their order.

        Of several scrapers that stored one instance (replicas of a Prometheus) that with most samples counts.
        """
        for instance, targets in self._names.targets(matrix.metrics).items():
            target = max(targets, key=lambda one: matrix.counts[one.series].sum())
            for keys, times, numbers in _alike(matrix, target):
                first = int(np.searchsorted(times, after_seconds, side="right"))
                if first < len(times):
                    layout = self._layout(keys)
                    yield StoredStretch(instance, layout.series(times[first:], numbers[first:]))

    def _layout(self, keys: tuple[SeriesKey, ...]) -> Layout:
        layout = self._layouts.get(keys)
        if layout is None:
            if len(self._layouts) >= _LAYOUTS_KEPT:
                self._layouts.clear()
            layout = layout_of_series((name, dict(labels)) for name, labels in keys)
            self._layouts[keys] = layout
        return layout


def _alike(matrix: Matrix, target: ScrapedTarget) -> Iterator[tuple[tuple[SeriesKey, ...], Floats, Floats]]:
    """Yield successive times at which the same series have a sample: these, the times, a row for each."""
    firsts, counts = matrix.firsts[target.series], matrix.counts[target.series]
    count = int(counts[0])
    if (counts == count).all():
        samples = firsts + np.arange(count)[:, None]
        moments = matrix.moments[samples]
        if (moments == moments[:, :1]).all():
            yield target.keys, matrix.times(slice(firsts[0], firsts[0] + count)), matrix.values[samples]
            return
    yield from _runs_alike(
        matrix, target.keys, [slice(*one) for one in zip(firsts, firsts + counts, strict=True)]
    )


def _runs_alike(
    matrix: Matrix, keys: Sequence[SeriesKey], samples: Sequence[slice]
) -> Iterator[tuple[tuple[SeriesKey, ...], Floats, Floats]]:
    """Do that where series come and go."""
    series_times = [matrix.times(one) for one in samples]
    times = np.unique(np.concatenate(series_times))
    numbers, has = np.zeros((len(times), len(keys))), np.zeros((len(times), len(keys)), np.bool_)
    for column, (one, seconds) in enumerate(zip(samples, series_times, strict=True)):
        at = np.searchsorted(times, seconds)
        numbers[at, column], has[at, column] = matrix.values[one], True
    changes = np.flatnonzero((has[1:] != has[:-1]).any(axis=1)) + 1
    for start, end in pairwise((0, *changes.tolist(), len(times))):
        there = has[start]
        present = tuple(key for key, is_there in zip(keys, there, strict=True) if is_there)
        yield present, times[start:end], numbers[start:end, there]
