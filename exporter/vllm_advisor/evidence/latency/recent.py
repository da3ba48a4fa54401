"""The last minutes: what is seen now, beside the curve of the week."""

from __future__ import annotations

from vllm_advisor.evidence.interval import Interval
from vllm_advisor.evidence.latency.histogram import LogHistogram

__all__ = ["Recent"]

_SLOT_SECONDS = 300.0


class _Slot:
    __slots__ = ("decode_tokens", "prompt_tokens", "queue_seconds", "queued", "tpot", "ttft")

    def __init__(self) -> None:
        self.tpot = LogHistogram()
        self.ttft: dict[float, float] = {}
        self.queue_seconds = self.queued = self.prompt_tokens = self.decode_tokens = 0.0


class Recent:
    """Two slots of five minutes, so that between five and ten minutes are seen."""

    __slots__ = ("_before", "_current", "_started_seconds")

    def __init__(self) -> None:
        self._before, self._current = _Slot(), _Slot()
        self._started_seconds: float | None = None

    def observe(self, interval: Interval) -> None:
        """Take in what an engine did."""
        self.turn(interval.end_seconds)
        slot = self._current
        slot.queue_seconds += interval.queue_seconds
        slot.queued += interval.queued
        slot.prompt_tokens += interval.prompt_tokens
        slot.decode_tokens += interval.decode_tokens
        if interval.first_tokens and interval.ttft is not None:
            for bound, count in zip(interval.ttft.bounds, interval.ttft.counts, strict=True):
                if count:
                    slot.ttft[bound] = slot.ttft.get(bound, 0.0) + count

    def observe_tpot(self, tpot_seconds: float, tokens: float) -> None:
        """Take in a request-scale stretch."""
        self._current.tpot.add(tpot_seconds, tokens)

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
