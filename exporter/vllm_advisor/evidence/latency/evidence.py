"""The latency evidence of one deployment."""

from __future__ import annotations

from typing import Any

import numpy as np

from vllm_advisor.evidence.intervals import Intervals, runs
from vllm_advisor.evidence.latency.bins import ConcurrencyBins
from vllm_advisor.evidence.latency.recent import Recent
from vllm_advisor.evidence.latency.request_mix import RequestMix
from vllm_advisor.evidence.latency.snapshot import LatencySnapshot, bins_snapshot
from vllm_advisor.evidence.latency.stretch import EngineStretches, Pieces, Spans, Stretches
from vllm_advisor.sources.engine_series import Floats

__all__ = ["LatencyEvidence"]

_AGEING_STEPS = 168


class LatencyEvidence:
    """Time per output token against concurrency, pooled over a deployment's engines.

    Concurrency is running sequences, prefilling ones included, since that is what ``--max-num-seqs`` counts:
    the decoding ones by Little's law over the interval (design page, "Latency curve") and, by the same law on
    the time to first token, those in prefill. So a concurrency on the curve is a value of the flag.

    What was seen fades: its weight halves every quarter of the retention.

    Memory: some 60 bins of about 1 KB in practice, at most 190 of 9 KB, and 10 KB an engine.

    Args:
        retention_seconds: how long evidence counts; older evidence weighs under a sixteenth.
    """

    def __init__(self, retention_seconds: float = 7 * 86400.0) -> None:
        self.retention_seconds = retention_seconds
        self._engines: dict[str, EngineStretches] = {}
        self._clear()
        self._aged_seconds: float | None = None

    def observe(self, intervals: Intervals) -> None:
        """Take in what engines did next, in the order of time."""
        done = 0
        while done < len(intervals):
            self._age(float(intervals.end_seconds[done]))
            passed = intervals.end_seconds - (self._aged_seconds or 0.0)
            end = int(np.searchsorted(passed, self._step_seconds))
            self._observe(intervals.rows(slice(done, end)))
            done = end

    def _observe(self, intervals: Intervals) -> None:
        spans = self._spans(intervals, self._mix.observe(intervals))
        short, long = (Stretches.of(spans.rows(spans.is_long == is_long)) for is_long in (False, True))
        self._short.add(short)
        self._long.add(long)
        self._recent.observe(intervals, short)

    def _spans(self, intervals: Intervals, request_tokens: Floats) -> Spans:
        """Return the spans that each engine completes, in the order of time."""
        order = np.argsort(intervals.engine, kind="stable")
        engine, pieces, request_tokens = (
            intervals.engine[order],
            Pieces.of(intervals).rows(order),
            request_tokens[order],
        )
        found: list[Spans] = []
        for start, end in runs(engine):
            stretches = self._engines.setdefault(intervals.engine_ids[engine[start]], EngineStretches())
            own = slice(start, end)
            found += stretches.join(pieces.rows(own), request_tokens[own])
        return Spans.together(found)

    @property
    def _step_seconds(self) -> float:
        return self.retention_seconds / _AGEING_STEPS

    def break_engine(self, engine_id: str) -> None:
        """Let no stretch of an engine reach over this moment: it restarted, or pages are missing."""
        engine = self._engines.get(engine_id)
        if engine is not None:
            engine.break_off()

    def forget_engine(self, engine_id: str) -> None:
        """Drop what is kept of an engine that is gone; what it showed stays in the curve."""
        self._engines.pop(engine_id, None)

    def start_epoch(self, at_seconds: float) -> None:
        """Start an empty curve: flags, model or version changed, and the old curve is another engine's."""
        self._engines.clear()
        self._clear()
        self._aged_seconds = at_seconds

    def snapshot(self, now_seconds: float) -> LatencySnapshot:
        """Return what the ceiling is worked out from."""
        self._age(now_seconds)
        self._recent.turn(now_seconds)
        return LatencySnapshot(
            stretches=bins_snapshot(self._short.supported()),
            long_stretches=bins_snapshot(self._long.ascending()),
            request_tokens=self._mix.decoded_quantiles(),
            prompt_tokens=self._mix.prompt_quantiles(),
            running_peak=max((engine.running_peak for engine in self._engines.values()), default=None),
            tpot_recent_p99_seconds=self._recent.tpot_quantile_seconds(0.99),
            ttft_recent_p99_seconds=self._recent.ttft_quantile_seconds(0.99),
            queue_recent_mean_seconds=self._recent.queue_mean_seconds,
            prefill_recent_ratio=self._recent.prefill_ratio,
        )

    def merge(self, other: LatencyEvidence) -> None:
        """Add another deployment's curve."""
        self._short.merge(other._short)
        self._long.merge(other._long)
        self._mix.merge(other._mix)

    def state(self) -> dict[str, Any]:
        """Return the curve as plain JSON values; the last minutes and unfinished stretches are not kept."""
        return {
            "aged_seconds": self._aged_seconds,
            "retention_seconds": self.retention_seconds,
            "stretches": self._short.state(),
            "long_stretches": self._long.state(),
            "request_mix": self._mix.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> LatencyEvidence:
        """Rebuild what `state` gave."""
        evidence = cls(float(state["retention_seconds"]))
        evidence._short = ConcurrencyBins.from_state(state["stretches"])
        evidence._long = ConcurrencyBins.from_state(state["long_stretches"])
        evidence._mix = RequestMix.from_state(state["request_mix"])
        aged = state["aged_seconds"]
        evidence._aged_seconds = None if aged is None else float(aged)
        return evidence

    def _clear(self) -> None:
        self._short, self._long = ConcurrencyBins(), ConcurrencyBins()
        self._mix, self._recent = RequestMix(), Recent()

    def _age(self, now_seconds: float) -> None:
        if self._aged_seconds is None:
            self._aged_seconds = now_seconds
        if now_seconds - self._aged_seconds < self._step_seconds:
            return
        factor = 0.5 ** ((now_seconds - self._aged_seconds) / (self.retention_seconds / 4))
        for held in (self._short, self._long, self._mix):
            held.age(factor)
        self._aged_seconds = now_seconds
