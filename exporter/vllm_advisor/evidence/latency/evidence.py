"""The latency evidence of one deployment."""

from __future__ import annotations

from typing import Any

from vllm_advisor.evidence.interval import Interval
from vllm_advisor.evidence.latency.bins import ConcurrencyBins
from vllm_advisor.evidence.latency.recent import Recent
from vllm_advisor.evidence.latency.request_mix import RequestMix
from vllm_advisor.evidence.latency.snapshot import LatencySnapshot, bins_snapshot
from vllm_advisor.evidence.latency.stretch import EngineStretches

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

    def observe(self, engine_id: str, interval: Interval) -> None:
        """Take in what an engine did next; each engine's intervals come in the order of their times."""
        self._age(interval.end_seconds)
        engine = self._engines.get(engine_id)
        if engine is None:
            engine = self._engines[engine_id] = EngineStretches()
        self._recent.observe(interval)
        self._mix.observe(interval)
        short, long = engine.push(interval, self._mix.decoded_tokens)
        if short is not None:
            self._short.add(short)
            self._recent.observe_tpot(short.tpot_seconds, short.newest_decode_tokens)
        if long is not None:
            self._long.add(long)

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
        step = self.retention_seconds / _AGEING_STEPS
        if self._aged_seconds is None:
            self._aged_seconds = now_seconds
        if now_seconds - self._aged_seconds < step:
            return
        factor = 0.5 ** ((now_seconds - self._aged_seconds) / (self.retention_seconds / 4))
        for held in (self._short, self._long, self._mix):
            held.age(factor)
        self._aged_seconds = now_seconds
