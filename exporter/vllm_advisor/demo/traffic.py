"""Requests for the simulated engine: a rate that swings like a day, and lengths as a real service saw them.

The length quantiles are of the conversation trace of AzurePublicDataset (`AzureLLMInferenceTrace_conv.csv`,
CC-BY 4.0; Patel et al., "Splitwise: Efficient Generative LLM Inference Using Phase Splitting", ISCA 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, tau

import numpy as np

from vllm_advisor.demo.engine import Request

__all__ = ["MAX_TOKENS", "Swing", "Traffic"]

MAX_TOKENS = 1000
"""What every client asks for at most: the longest answer in the trace."""

_QUANTILES = (
    *(0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(0.95, 0.99, 0.995, 0.999, 0.9995, 1),
)
_PROMPT_TOKENS = (
    *(2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2735),
    *(4083, 4142, 4831, 6212, 6781, 14050),
)
_OUTPUT_TOKENS = (
    *(7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424),
    *(451, 601, 644, 954, 1000, 1000),
)


@dataclass(frozen=True, slots=True)
class Swing:
    """An arrival rate between a night's and a day's, as a cosine that starts at night."""

    night_per_second: float = 40.0
    day_per_second: float = 160.0
    period_seconds: float = 20.0

    def per_second(self, elapsed_seconds: float) -> float:
        """Return the rate at a time after the start."""
        height_ratio = (1 - cos(tau * elapsed_seconds / self.period_seconds)) / 2
        return self.night_per_second + (self.day_per_second - self.night_per_second) * height_ratio


class Traffic:
    """An open loop: requests come at random, however busy the engine is."""

    def __init__(self, swing: Swing, random: np.random.Generator, start_seconds: float) -> None:
        self._swing = swing
        self._random = random
        self._start_seconds = self._until_seconds = start_seconds

    def arrivals_until(self, now_seconds: float) -> list[Request]:
        """Return what arrived since the last call, in order of arrival."""
        since_seconds, width_seconds = self._until_seconds, now_seconds - self._until_seconds
        if width_seconds <= 0:
            return []
        self._until_seconds = now_seconds
        middle_seconds = since_seconds + width_seconds / 2 - self._start_seconds
        number = self._random.poisson(self._swing.per_second(middle_seconds) * width_seconds)
        arrivals_seconds = np.sort(since_seconds + width_seconds * self._random.random(number))
        prompts_tokens = self._lengths(_PROMPT_TOKENS, number)
        outputs_tokens = self._lengths(_OUTPUT_TOKENS, number)
        return [
            Request(arrival_seconds, prompt_tokens, output_tokens, MAX_TOKENS)
            for arrival_seconds, prompt_tokens, output_tokens in zip(
                arrivals_seconds.tolist(), prompts_tokens, outputs_tokens, strict=True
            )
        ]

    def _lengths(self, table_tokens: tuple[int, ...], number: int) -> list[int]:
        drawn = np.interp(self._random.random(number), _QUANTILES, table_tokens)
        return [round(tokens) for tokens in drawn.tolist()]
