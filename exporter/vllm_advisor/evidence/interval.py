"""What one engine did between two of its pages."""

from __future__ import annotations

from dataclasses import dataclass
from operator import sub

from vllm_advisor.sources.engine_sample import EngineSample, Histogram

__all__ = ["Interval", "LengthCounts", "counters_fell", "interval_between"]

_COUNTERS = (
    "prompt_tokens",
    "generation_tokens",
    "preemptions",
    "finished",
    "itl_sum",
    "itl_count",
    "queue_sum",
    "queue_count",
    "iteration_sum",
    "iteration_count",
)


@dataclass(frozen=True, slots=True)
class LengthCounts:
    """New observations of a histogram in one interval.

    Args:
        bounds: upper bounds, ascending, the last infinite.
        counts: observations in each bucket (not cumulative).
        total: their sum, in the family's unit.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Differences between two successive pages of one engine.

    ``*_seconds`` are seconds, ``*_tokens`` tokens, the rest counts; what the page lacks is 0 for an increase
    and None for a level. Levels (running, waiting, KV) are those of the later page.
    """

    start_seconds: float
    end_seconds: float
    running: float | None
    running_before: float | None
    waiting: float | None
    kv_used_ratio: float | None
    awake: bool
    decode_seconds: float
    """Increase of the inter-token latency sum: one second a second for each decoding sequence."""
    decode_tokens: float
    """Output tokens after each request's first; none where the page does not tell how long they took."""
    prompt_tokens: float
    generation_tokens: float
    first_tokens: float
    """Requests that got their first token."""
    ttft_seconds: float
    queue_seconds: float
    queued: float
    steps: float
    step_tokens: float
    preemptions: float
    finished: float
    ttft: LengthCounts | None = None
    prompt_lengths: LengthCounts | None = None
    generation_lengths: LengthCounts | None = None

    @property
    def seconds(self) -> float:
        """Length of the interval."""
        return self.end_seconds - self.start_seconds

    @property
    def tpot_seconds(self) -> float | None:
        """Mean time per output token, None where no token was decoded."""
        return self.decode_seconds / self.decode_tokens if self.decode_tokens > 0 else None


def counters_fell(earlier: EngineSample, later: EngineSample) -> bool:
    """Tell whether the engine restarted between two pages: some counter is lower on the later one."""
    for name in _COUNTERS:
        before, after = getattr(earlier, name), getattr(later, name)
        if before is not None and after is not None and after < before:
            return True
    return False


def interval_between(
    earlier: EngineSample, start_seconds: float, later: EngineSample, end_seconds: float
) -> Interval | None:
    """Return what happened between two pages of one engine; None over a restart or no time."""
    if end_seconds <= start_seconds or counters_fell(earlier, later):
        return None
    ttft = _new_observations(earlier.ttft, later.ttft)
    first_tokens = sum(ttft.counts) if ttft else 0.0
    generation_tokens = _increase(earlier.generation_tokens, later.generation_tokens)
    decode_seconds = _increase(earlier.itl_sum, later.itl_sum)
    return Interval(
        start_seconds=start_seconds,
        end_seconds=end_seconds,
        running=later.running,
        running_before=earlier.running,
        waiting=later.waiting,
        kv_used_ratio=later.kv_used_ratio,
        awake=earlier.awake and later.awake,
        decode_seconds=decode_seconds,
        decode_tokens=max(0.0, generation_tokens - first_tokens) if decode_seconds > 0 else 0.0,
        prompt_tokens=_increase(earlier.prompt_tokens, later.prompt_tokens),
        generation_tokens=generation_tokens,
        first_tokens=first_tokens,
        ttft_seconds=ttft.total if ttft else 0.0,
        queue_seconds=_increase(earlier.queue_sum, later.queue_sum),
        queued=_increase(earlier.queue_count, later.queue_count),
        steps=_increase(earlier.iteration_count, later.iteration_count),
        step_tokens=_increase(earlier.iteration_sum, later.iteration_sum),
        preemptions=_increase(earlier.preemptions, later.preemptions),
        finished=_increase(earlier.finished, later.finished),
        ttft=ttft,
        prompt_lengths=_new_observations(earlier.prompt_lengths, later.prompt_lengths),
        generation_lengths=_new_observations(earlier.generation_lengths, later.generation_lengths),
    )


def _increase(before: float | None, after: float | None) -> float:
    return after - before if before is not None and after is not None else 0.0


def _new_observations(before: Histogram | None, after: Histogram | None) -> LengthCounts | None:
    if before is None or after is None or before.bounds != after.bounds or after.count < before.count:
        return None
    cumulative = list(map(sub, after.counts, before.counts))
    counts = list(map(sub, cumulative, [0.0, *cumulative]))
    if min(counts) < 0:
        return None
    return LengthCounts(after.bounds, tuple(counts), after.total - before.total)
