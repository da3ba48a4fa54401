"""Recorded pages through the real readers, as intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from vllm_advisor.evidence.intervals import Intervals, Pages, intervals_of
from vllm_advisor.sources.capture import read_captures
from vllm_advisor.sources.engine_series import EngineSeries, series_of
from vllm_advisor.sources.page import PageReader


def intervals_seen(captures: Sequence[Path]) -> Iterator[Intervals]:
    """Yield what recorded engines did, in the order of time."""
    reader = PageReader()
    pieces: dict[str, list[EngineSeries]] = {}
    for page in read_captures(captures):
        for sample in reader.read(page.text, page.target).engines:
            pieces.setdefault(sample.engine, []).append(series_of(sample, page.time_seconds, 1))
    yield from intervals_of([Pages(one, tuple(series), counts=True) for one, series in pieces.items()], 300.0)
