"""Puts a store's samples together again: what of one engine has one time was on one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Literal

import numpy as np

from vllm_advisor.sources.engine_series import EngineSeries, Floats
from vllm_advisor.sources.page_layout import Layout, layout_of_series
from vllm_advisor.sources.prometheus.matrix import Matrix
from vllm_advisor.sources.prometheus.series_names import ScrapedTarget, SeriesKey, SeriesNames

__all__ = ["StoredPages", "StoredStretch"]

_LAYOUTS_KEPT = 4096

_Run = tuple[tuple[SeriesKey, ...], Floats, Floats]
"""Series, the times at which all of them have a sample, and a row of numbers for each."""


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

    def stretches(
        self, matrix: Matrix, after_seconds: float, *, with_last_before: bool = False
    ) -> Iterator[StoredStretch]:
        """Yield the pages later than a time, those of one instance in their order.

        With the last page before it, what happened since that one can be told.

        Of several scrapers that stored one instance at one time (replicas of a Prometheus) that with most
        samples counts.
        """
        for instance, targets in self._names.targets(matrix.metrics).items():
            scrapers = targets if len(targets) == 1 else _one_at_a_time(matrix, targets)
            runs = [run for target in scrapers for run in _alike(matrix, target)]
            since_seconds = _last_before(runs, after_seconds) if with_last_before else after_seconds
            side: Literal["left", "right"] = "left" if with_last_before else "right"
            for keys, times, numbers in runs:
                first = int(np.searchsorted(times, since_seconds, side=side))
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


def _one_at_a_time(matrix: Matrix, targets: Sequence[ScrapedTarget]) -> list[ScrapedTarget]:
    """Return those with most samples that overlap no other in time, in the order of time.

    A target whose labels change (another pod at its address, another version in a label) is stored as two.
    """
    chosen: list[tuple[float, float, ScrapedTarget]] = []
    for target in sorted(targets, key=lambda one: -matrix.counts[one.series].sum()):
        firsts = matrix.firsts[target.series]
        start = float(matrix.times(firsts).min())
        end = float(matrix.times(firsts + matrix.counts[target.series] - 1).max())
        if all(start > other_end or end < other_start for other_start, other_end, _ in chosen):
            chosen.append((start, end, target))
    return [target for *_, target in sorted(chosen, key=itemgetter(0))]


def _last_before(runs: Iterable[_Run], after_seconds: float) -> float:
    """Return the time of the last page that is no later than a time, that time where there is none."""
    earlier = (float(time) for _, times, _ in runs for time in times if time <= after_seconds)
    return max(earlier, default=after_seconds)


def _alike(matrix: Matrix, target: ScrapedTarget) -> Iterator[_Run]:
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


def _runs_alike(matrix: Matrix, keys: Sequence[SeriesKey], samples: Sequence[slice]) -> Iterator[_Run]:
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
