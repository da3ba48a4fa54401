"""Which misreading would explain a predicted pool that the engine does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from operator import itemgetter

from vllm_advisor.ceilings.misreadings import GUESSES, MISREADINGS, Reading
from vllm_advisor.ceilings.pool import PoolPrediction

__all__ = ["EXPLAINED_RATIO", "Diagnosis", "diagnose"]

EXPLAINED_RATIO = 0.01
"""A reading this near to the engine's report explains the gap."""
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What would bring the prediction to the engine's report.

    Args:
        explanations: the readings, nearest first, and the likelier of two that are as near. Several where
            the figures alone cannot tell them apart; each is one sentence, or two where only a pair explains
            the gap.
    """

    explanations: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The whole in one sentence."""
        if not self.explanations:
            return "No known misreading, alone or with another, brings the prediction to the engine's report."
        said = "; or ".join(" and ".join(sentences) for sentences in self.explanations)
        return f"The report agrees within 1% if {said}."


@lru_cache(maxsize=64)
def diagnose(prediction: PoolPrediction, engine_tokens: int, max_model_len: int) -> Diagnosis:
    """Try every known misreading alone, and in pairs where none explains the gap alone.

    Args:
        prediction: the pool as predicted.
        engine_tokens: what the engine reports.
        max_model_len: the length it reports it at.
    """
    for readings in (_alone(prediction), _in_pairs(prediction)):
        errors = [
            (abs(_tokens(reading, max_model_len) / engine_tokens - 1), sentences)
            for sentences, reading in readings
        ]
        near = [(round(error, 3), sentences) for error, sentences in errors if error <= EXPLAINED_RATIO]
        if near:
            near.sort(key=itemgetter(0))
            return Diagnosis(tuple(sentences for _, sentences in near[:_NAMED]))
    return Diagnosis(())


def _alone(prediction: PoolPrediction) -> Iterator[tuple[tuple[str, ...], Reading]]:
    for misreading in (*MISREADINGS, *GUESSES):
        for reading in misreading(prediction):
            yield (reading.says,), reading


def _in_pairs(prediction: PoolPrediction) -> Iterator[tuple[tuple[str, ...], Reading]]:
    for first, second in combinations(MISREADINGS, 2):
        for one in first(prediction):
            for two in second(one.prediction):
                reading = Reading(two.says, two.prediction, one.factor * two.factor)
                yield (one.says, two.says), reading


def _tokens(reading: Reading, max_model_len: int) -> float:
    return (reading.prediction.tokens(max_model_len) or 0) * reading.factor
