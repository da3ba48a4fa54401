"""The last minutes: what is seen now, beside the curve of the week."""

from __future__ import annotations

import numpy as np

from vllm_advisor.evidence.intervals import Intervals, total
from vllm_advisor.evidence.latency.histogram import LogHistogram
from vllm_advisor.evidence.latency.stretch import Stretches

__all__ = ["Recent"]

_SLOT_SECONDS = 300.0


class _Slot:
    __slots__ = ("decode_tokens", "prompt_tokens", "queue_seconds", "queued", "tpot", "ttft")

    def __init__(self) -> None:
        self.tpot = LogHistogram()
        self.ttft: dict[float, float] = {}
        self.queue_seconds = self.queued = self.prompt_tokens = self.decode_tokens = 0.0

    def observe(self, intervals: Intervals, stretches: Stretches) -> None:
        self.queue_seconds = total(self.queue_seconds, intervals.queue_seconds)
        self.queued = total(self.queued, intervals.queued)
        self.prompt_tokens = total(self.prompt_tokens, intervals.prompt_tokens)
        self.decode_tokens = total(self.decode_tokens, intervals.decode_tokens)
        if intervals.ttft is not None:
            for bound, count in zip(intervals.ttft.bounds, intervals.ttft.summed().tolist(), strict=True):
                if count:
                    self.ttft[bound] = self.ttft.get(bound, 0.0) + count
        told = stretches.tpot_seconds > 0
        self.tpot.add(stretches.tpot_seconds[told], stretches.newest_decode_tokens[told])


class Recent:
    """Two slots of five minutes, so that between five and ten minutes are seen."""

    __slots__ = ("_before", "_current", "_started_seconds")

    def __init__(self) -> None:
        self._before, self._current = _Slot(), _Slot()
        self._started_seconds: float | None = None

    def observe(self, intervals: Intervals, stretches: Stretches) -> None:
        """Take in what engines did, and the request-scale stretches that this completed."""
        done = 0
        while done < len(intervals):
            self.turn(float(intervals.end_seconds[done]))
            passed = intervals.end_seconds - (self._started_seconds or 0.0)
            end = int(np.searchsorted(passed, _SLOT_SECONDS))
            first, last = np.searchsorted(stretches.interval, (done, end))
            self._current.observe(intervals.rows(slice(done, end)), stretches.rows(slice(first, last)))
            done = end

    def turn(self, now_seconds: float) -> None:
        """Forget what is older than two slots."""
        if self._started_seconds is None:
            self._started_seconds = now_seconds
        passed = now_seconds - self._started_seconds
        if passed < _SLOT_SECONDS:
            return
        self._before = self._current if passed < 2 * _SLOT_SECONDS else _Slot()
        self._current, self._started_seconds = _Slot(), now_seconds

    def tpot_quantile_seconds(self, quantile: float) -> float | None:
        """Return a quantile of request-scale TPOT, None where nothing was decoded."""
        both = LogHistogram(self._before.tpot.first, self._before.tpot.counts)
        both.merge(self._current.tpot)
        return both.quantile(quantile)

    def ttft_quantile_seconds(self, quantile: float) -> float | None:
        """Return the bucket bound that a part of the times to first token lies under (infinity: none)."""
        counts = dict(self._before.ttft)
        for bound, count in self._current.ttft.items():
            counts[bound] = counts.get(bound, 0.0) + count
        left = quantile * sum(counts.values())
        for bound in sorted(counts):
            left -= counts[bound]
            if left <= 0:
                return bound
        return None

    @property
    def queue_mean_seconds(self) -> float | None:
        """Mean time a finished request had waited for its first step."""
        queued = self._before.queued + self._current.queued
        return (self._before.queue_seconds + self._current.queue_seconds) / queued if queued else None

    @property
    def prefill_ratio(self) -> float | None:
        """Prompt tokens per decoded token."""
        decoded = self._before.decode_tokens + self._current.decode_tokens
        return (self._before.prompt_tokens + self._current.prompt_tokens) / decoded if decoded else None
