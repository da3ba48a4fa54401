"""What one access-log line says of one request; never a word of its prompt or its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["REJECTED", "Logged", "LoggedRequest", "Outcome", "Place", "ServedBlock"]

Place = tuple[int, int]
"""Where a line is in its file: offset and length in bytes."""


class Outcome(StrEnum):
    """What became of a line: the request it tells of, or why it tells of none."""

    SERVED = "served"
    """Answered, with both token counts."""
    WITHOUT_USAGE = "without_usage"
    """Answered, token counts unknown: often a stream without ``include_usage``."""
    REJECTED_FOR_LENGTH = "rejected_for_length"
    """Refused with 400 and the model's context limit in the text."""
    FAILED = "failed"
    CACHED = "cached"
    """Answered by a proxy's cache: never reached an engine."""
    NOT_GENERATION = "not_generation"
    """Embeddings, reranking, health checks."""
    DUPLICATE = "duplicate"
    """A second record of a request already counted."""
    OTHER_DEPLOYMENT = "other_deployment"
    """Another model's, or one that ``match`` leaves out."""
    OTHER = "other"
    """A line that is no record of a request: headers, start-up lines, another program's."""
    BROKEN = "broken"
    """Cut, garbled, or with counts that cannot be."""
    TOO_LONG = "too_long"
    """Over the line limit."""
    IN_FUTURE = "in_future"
    """Dated further ahead than clocks differ, so that nobody knows when it was."""


REJECTED = (Outcome.BROKEN, Outcome.TOO_LONG, Outcome.IN_FUTURE)
"""What becomes of lines that should have told of a request and cannot be used."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as an access log has it; None where the log does not say.

    Args:
        outcome: what became of it.
        time_seconds: when, in epoch seconds; start or end, as the log has it.
        prompt_tokens: the whole prompt, cached tokens included.
        output_tokens: of one answer: the mean over ``n`` where several were asked for.
        max_tokens: output tokens asked for.
        cut_by_length: whether the answer ended at ``max_tokens`` or at the model's limit.
        limit_tokens: the context limit a refusal names.
        model: the model or route the log names.
    """

    outcome: Outcome
    time_seconds: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    max_tokens: int | None = None
    cut_by_length: bool = False
    limit_tokens: int | None = None
    model: str | None = None

    @property
    def newest_seconds(self) -> float | None:
        """When it was, as a block says of its newest."""
        return self.time_seconds


@dataclass(frozen=True, slots=True)
class ServedBlock:
    """Served requests as columns, for reading many lines at once.

    Args:
        time_seconds: epoch seconds.
        prompt_tokens: the whole prompts.
        output_tokens: of one answer each.
        max_tokens: output tokens asked for, -1 where unknown.
        cut_by_length: answers that ended at ``max_tokens`` or at the model's limit.
    """

    time_seconds: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    max_tokens: NDArray[np.int64]
    cut_by_length: NDArray[np.bool_]

    @property
    def requests(self) -> int:
        """Number of requests."""
        return int(self.prompt_tokens.size)

    @property
    def newest_seconds(self) -> float | None:
        """When the newest was, None of an empty block."""
        return float(self.time_seconds.max()) if self.requests else None


Logged = LoggedRequest | ServedBlock
"""What reading gives: a request, or a block of served ones."""
