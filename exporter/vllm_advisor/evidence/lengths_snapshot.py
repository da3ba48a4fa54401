"""What a window of context lengths holds, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from vllm_advisor.evidence.length_bounds import LengthBounds
from vllm_advisor.evidence.lengths_distribution import LengthDistribution
from vllm_advisor.sources.access_logs.request import Outcome

__all__ = ["ContextSnapshot", "LengthSource"]


class LengthSource(StrEnum):
    """Where context lengths come from."""

    ACCESS_LOG = "access_log"
    HISTOGRAMS = "histograms"


@dataclass(frozen=True, slots=True)
class ContextSnapshot:
    """Context lengths of the window.

    Args:
        source: where they come from; access logs are preferred.
        window_seconds: from the earliest to the latest observation in the window.
        total: prompt plus output tokens; an estimate where ``source`` is the histograms.
        prompt: prompt tokens; ``output`` output tokens.
        requested: prompt plus ``max_tokens`` of the requests that asked for a number.
        cut: totals of the answers that ended by length.
        longest_tokens: the longest total, exact, None without requests or from histograms.
        longest_last_day_tokens: the same within the last day.
        outcomes: log lines by outcome.
        late: observations older than the window, left out.
        bounds: what the engine's histograms say of total lengths whatever the dependence, None without them.
    """

    source: LengthSource
    window_seconds: float
    total: LengthDistribution
    prompt: LengthDistribution
    output: LengthDistribution
    requested: LengthDistribution
    cut: LengthDistribution
    longest_tokens: int | None
    longest_last_day_tokens: int | None
    outcomes: Mapping[str, int]
    late: int
    bounds: LengthBounds | None

    @property
    def requests(self) -> int:
        """Requests with known lengths."""
        return self.total.requests

    @property
    def rejected_for_length(self) -> int:
        """Requests refused for their length."""
        return self.outcomes.get(Outcome.REJECTED_FOR_LENGTH, 0)

    @property
    def without_usage(self) -> int:
        """Requests answered whose lengths the log does not have."""
        return self.outcomes.get(Outcome.WITHOUT_USAGE, 0)
