"""Recorded pages through the real readers, as intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from vllm_advisor.evidence.interval import Interval, interval_between
from vllm_advisor.sources.capture import read_captures
from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.page import PageReader


def intervals_of(captures: Sequence[Path]) -> Iterator[tuple[str, Interval]]:
    """Yield (engine, interval) of recorded pages in the order of time."""
    reader = PageReader()
    last: dict[str, tuple[EngineSample, float]] = {}
    for page in read_captures(captures):
        for sample in reader.read(page.text, page.target).engines:
            if sample.engine in last:
                interval = interval_between(*last[sample.engine], sample, page.time_seconds)
                if interval is not None:
                    yield sample.engine, interval
            last[sample.engine] = (sample, page.time_seconds)
