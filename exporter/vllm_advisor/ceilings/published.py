"""What stays published: a recommendation moves only for more than its own uncertainty, and once that held."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from vllm_advisor.advice_config import StabilityConfig
from vllm_advisor.ceilings.context_limit import ContextLimit, limit_from_quantile
from vllm_advisor.ceilings.grade import Grade, weakest
from vllm_advisor.config import ContextConfig
from vllm_advisor.evidence.lengths_distribution import LengthDistribution

__all__ = ["Candidate", "Pending", "Published", "PublishedFlag", "context_candidate", "settle"]

_DEVIATIONS = 1.96
"""Half-width of the interval of a quantile in standard errors: 95%."""
_NARROWER = 0.5
"""An interval this much narrower than at publication rests on four times the evidence or more."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the evidence says at this moment.

    Args:
        value: of the flag, None where the evidence does not carry one.
        low: values from here to ``high`` are not told apart from it.
        rising_protects: whether a higher value is the one that protects users.
    """

    value: int | None
    grade: Grade
    low: int
    high: int
    rising_protects: bool = False

    @property
    def width(self) -> int:
        """Of the interval of values that are not told apart."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Pending:
    """A move that has not held for long enough."""

    rises: bool
    since_seconds: float


@dataclass(frozen=True, slots=True)
class PublishedFlag:
    """One flag as published.

    Args:
        grade: of the evidence that last carried it.
        best_grade: of any evidence that carried it.
        since_seconds: when this value was published.
        supported_seconds: when the evidence last carried a value.
        width: of its interval when it was published, which shrinks as evidence grows.
        pending: the move that is being waited for.
    """

    value: int
    grade: Grade
    best_grade: Grade
    since_seconds: float
    supported_seconds: float
    width: int = 0
    pending: Pending | None = None

    def rests_on_little(self, candidate: Candidate) -> bool:
        """Whether it was published on much less evidence than the candidate has."""
        return bool(self.width) and candidate.width <= _NARROWER * self.width

    def grade_at(self, now_seconds: float) -> Grade:
        """Return the grade now; a value that the evidence no longer carries is beyond what is observed."""
        carried = self.supported_seconds >= now_seconds
        return self.grade if carried else weakest(self.grade, Grade.EXTRAPOLATED)


@dataclass(frozen=True, slots=True)
class Published:
    """Both flags, and what they hold for.

    Args:
        binding: the ceiling that max_num_seqs comes from.
        basis: engine and targets: what was published for others is not kept.
    """

    max_model_len: PublishedFlag | None
    max_num_seqs: PublishedFlag | None
    binding: str
    basis: Mapping[str, str]

    @property
    def changed_seconds(self) -> float | None:
        """When one of the values last changed."""
        flags = (self.max_model_len, self.max_num_seqs)
        return max((flag.since_seconds for flag in flags if flag is not None), default=None)

    def holds_for(self, basis: Mapping[str, str]) -> bool:
        """Whether nothing known of the engines differs from what it was published for."""
        return all(self.basis.get(name, value) == value for name, value in basis.items())

    def state(self) -> dict[str, Any]:
        """Return the content as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Published:
        """Rebuild what `state` gave."""
        flags = _flag(state["max_model_len"]), _flag(state["max_num_seqs"])
        return cls(*flags, str(state["binding"]), dict(state["basis"]))


def settle(
    previous: PublishedFlag | None, candidate: Candidate, now_seconds: float, stability: StabilityConfig
) -> PublishedFlag | None:
    """Return what is published of one flag now.

    A value within the candidate's own uncertainty stays, unless it was published on much less evidence and
    differs by more than ``tolerance``. A move is published once it has held as long as the published value
    had stood, so that young values follow the growing evidence; ``protect_after`` at most for what protects
    users (a lower max-num-seqs, a higher max-model-len), is better graded or rests on much more evidence,
    and ``relax_after`` at most otherwise, and for whatever rests on weaker evidence than what stands.
    """
    if candidate.value is None:
        kept = previous and now_seconds - previous.supported_seconds <= stability.keep_seconds
        return replace(previous, pending=None) if previous and kept else None
    fresh = PublishedFlag(
        candidate.value, candidate.grade, candidate.grade, now_seconds, now_seconds, candidate.width
    )
    if previous is None:
        return fresh
    if _is_the_same(previous, candidate, candidate.value, stability):
        return _carried(previous, candidate, now_seconds)
    pending = _pending(previous, candidate.value, now_seconds)
    if now_seconds - pending.since_seconds >= _wait_seconds(previous, pending, candidate, stability):
        return fresh
    return replace(previous, supported_seconds=now_seconds, pending=pending)


def _is_the_same(
    previous: PublishedFlag, candidate: Candidate, value: int, stability: StabilityConfig
) -> bool:
    """Whether what is published is not told apart from the candidate."""
    if not candidate.low <= previous.value <= candidate.high:
        return False
    differs = abs(value - previous.value) > stability.tolerance_ratio * previous.value
    return not (differs and previous.rests_on_little(candidate))


def _carried(previous: PublishedFlag, candidate: Candidate, now_seconds: float) -> PublishedFlag:
    """Return what stands, the evidence carrying it."""
    better = _is_better(candidate.grade, previous.best_grade)
    return replace(
        previous,
        grade=candidate.grade,
        best_grade=candidate.grade if better else previous.best_grade,
        supported_seconds=now_seconds,
        pending=None,
    )


def _is_better(grade: Grade, than: Grade) -> bool:
    return grade is not than and weakest(grade, than) is than


def _wait_seconds(
    previous: PublishedFlag, pending: Pending, candidate: Candidate, stability: StabilityConfig
) -> float:
    weaker = _is_better(previous.best_grade, candidate.grade)
    better = _is_better(candidate.grade, previous.best_grade)
    protects = pending.rises == candidate.rising_protects
    soon = (protects or better or previous.rests_on_little(candidate)) and not weaker
    longest = stability.protect_after_seconds if soon else stability.relax_after_seconds
    return min(longest, pending.since_seconds - previous.since_seconds)


def context_candidate(
    limit: ContextLimit, lengths: LengthDistribution, config: ContextConfig, model_max_len: int | None
) -> Candidate:
    """Return max-model-len with what the number of requests leaves open of its quantile.

    A quantile ``q`` of ``n`` requests lies between their quantiles ``q`` less and plus 1.96 standard errors
    ``sqrt(q (1 - q) / n)`` (the normal limit of the order statistics' ranks).
    """
    value = limit.max_model_len
    if value is None:
        return Candidate(None, Grade.NONE, 0, 0, rising_protects=True)
    error = _DEVIATIONS * math.sqrt(config.quantile * (1 - config.quantile) / max(1, lengths.requests))
    low, high = (
        _limit(lengths.quantile_tokens(quantile) or 0.0, config, model_max_len)
        for quantile in (config.quantile - error, min(1.0, config.quantile + error))
    )
    return Candidate(value, limit.grade, min(low, value), max(high, value), rising_protects=True)


def _limit(tokens: float, config: ContextConfig, model_max_len: int | None) -> int:
    limit = limit_from_quantile(
        tokens, margin_ratio=config.margin_ratio, round_up_to_tokens=config.round_up_to_tokens
    )
    return limit if model_max_len is None else min(limit, model_max_len)


def _pending(previous: PublishedFlag, value: int, now_seconds: float) -> Pending:
    rises = value > previous.value
    if previous.pending is not None and previous.pending.rises == rises:
        return previous.pending
    return Pending(rises, now_seconds)


def _flag(state: Mapping[str, Any] | None) -> PublishedFlag | None:
    if state is None:
        return None
    pending = Pending(**state["pending"]) if state["pending"] else None
    return PublishedFlag(
        **{
            **state,
            "grade": Grade(state["grade"]),
            "best_grade": Grade(state["best_grade"]),
            "pending": pending,
        }
    )
