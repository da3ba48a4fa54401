"""What the simulated engine counts for its page, with vLLM 0.32's bucket bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

__all__ = ["EngineCounters", "Histogram"]

_FIRST_TOKEN_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
_TOKEN_GAP_SECONDS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80),
)
_REQUEST_SECONDS = (
    *(0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    *(120, 240, 480, 960, 1920, 7680),
)
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


class Histogram:
    """A histogram that grows.

    Args:
        bounds: finite upper bounds, ascending.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


def _request_tokens_bounds(max_model_len_tokens: int) -> tuple[float, ...]:
    """Return vLLM's 1-2-5 steps up to the model length (`v1/metrics/loggers.py:build_1_2_5_buckets`)."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    return tuple(step for step in steps if step <= max_model_len_tokens)


class EngineCounters:
    """Everything counted since the engine's start.

    Args:
        max_model_len_tokens: cuts the bounds of the request token histograms.
    """

    def __init__(self, max_model_len_tokens: int) -> None:
        request_tokens = _request_tokens_bounds(max_model_len_tokens)
        self.steps = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.prefix_query_tokens = 0
        self.finished: Counter[str] = Counter()
        self.request_prompt_tokens = Histogram(request_tokens)
        self.request_generation_tokens = Histogram(request_tokens)
        self.request_max_tokens = Histogram(request_tokens)
        self.step_tokens = Histogram(_STEP_TOKENS)
        self.first_token_seconds = Histogram(_FIRST_TOKEN_SECONDS)
        self.token_gap_seconds = Histogram(_TOKEN_GAP_SECONDS)
        self.request_tpot_seconds = Histogram(_TOKEN_GAP_SECONDS)
        self.request_seconds = Histogram(_REQUEST_SECONDS)
        self.queue_seconds = Histogram(_REQUEST_SECONDS)
        self.inference_seconds = Histogram(_REQUEST_SECONDS)
        self.prefill_seconds = Histogram(_REQUEST_SECONDS)
        self.decode_seconds = Histogram(_REQUEST_SECONDS)
