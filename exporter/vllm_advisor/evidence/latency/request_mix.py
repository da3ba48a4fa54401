"""What requests are like: how many tokens they decode, and how long their prompts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vllm_advisor.evidence.intervals import Intervals
from vllm_advisor.evidence.latency.lengths import BucketedLengths

__all__ = ["RequestMix"]

_UNKNOWN_TOKENS = 100.0
_IN_FLIGHT = 2.0
"""Requests started for each finished, beyond which the mean is mostly of those that are not done yet."""
_QUANTILES = 16
_MOST_OFF = 1.3


class RequestMix:
    """Output and prompt lengths of a deployment's requests."""

    __slots__ = ("_decoded", "_finished", "_outputs", "_prompts", "_requests")

    def __init__(self) -> None:
        self._decoded = self._requests = self._finished = 0.0
        self._outputs, self._prompts = BucketedLengths(), BucketedLengths()

    def observe(self, intervals: Intervals) -> npt.NDArray[np.float64]:
        """Take in intervals' requests; return the decoded tokens of the mean request after each."""
        added = np.stack([intervals.decode_tokens, intervals.first_tokens, intervals.finished])
        held = np.array([[self._decoded], [self._requests], [self._finished]])
        decoded, requests, finished = np.cumsum(np.hstack([held, added]), axis=1)[:, 1:]
        self._decoded, self._requests, self._finished = (
            float(one[-1]) for one in (decoded, requests, finished)
        )
        for seen, lengths in (
            (self._outputs, intervals.generation_lengths),
            (self._prompts, intervals.prompt_lengths),
        ):
            if lengths is not None:
                seen.observe(lengths, intervals.finished > 0)
        return _mean_tokens(decoded, requests, finished)

    @property
    def decoded_tokens(self) -> float:
        """Decoded tokens (output less its first token) of the mean request."""
        return float(_mean_tokens(*map(np.array, (self._decoded, self._requests, self._finished))))

    def decoded_quantiles(self) -> npt.NDArray[np.float64]:
        """Return decoded tokens at evenly spaced quantiles of the requests that decode at all.

        Buckets are coarse, the mean is exact: the quantiles are scaled to it, within a bucket's width.
        """
        outputs = self._outputs.quantiles(_QUANTILES, above=1.0)
        if not len(outputs):
            return np.array([self.decoded_tokens])
        decoded = np.maximum(outputs - 1.0, 1.0)
        off = min(max(self.decoded_tokens / float(decoded.mean()), 1 / _MOST_OFF), _MOST_OFF)
        return np.maximum(decoded * off, 1.0)

    def prompt_quantiles(self) -> npt.NDArray[np.float64]:
        """Return prompt tokens at evenly spaced quantiles; empty where unknown."""
        return self._prompts.quantiles(_QUANTILES)

    def merge(self, other: RequestMix) -> None:
        """Add what another holds."""
        self._decoded += other._decoded
        self._requests += other._requests
        self._finished += other._finished
        self._outputs.merge(other._outputs)
        self._prompts.merge(other._prompts)

    def age(self, factor: float) -> None:
        """Weaken all that is held."""
        self._decoded *= factor
        self._requests *= factor
        self._finished *= factor
        self._outputs.age(factor)
        self._prompts.age(factor)

    def state(self) -> list[Any]:
        """Return the content as plain JSON values."""
        return [self._decoded, self._requests, self._outputs.state(), self._prompts.state()]

    @classmethod
    def from_state(cls, state: list[Any]) -> RequestMix:
        """Rebuild what `state` gave."""
        rebuilt = cls()
        rebuilt._decoded, rebuilt._requests = float(state[0]), float(state[1])
        rebuilt._finished = rebuilt._requests
        rebuilt._outputs = BucketedLengths.from_state(state[2])
        rebuilt._prompts = BucketedLengths.from_state(state[3])
        return rebuilt


def _mean_tokens(
    decoded: npt.NDArray[np.float64], requests: npt.NDArray[np.float64], finished: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return decoded tokens a request.

    While most that started are in flight, their mean is only what they have made so far.
    """
    least = np.where(requests <= _IN_FLIGHT * finished, 1.0, _UNKNOWN_TOKENS)
    known = requests > 0
    mean = np.divide(decoded, requests, where=known, out=np.full_like(decoded, _UNKNOWN_TOKENS))
    return np.where(known, np.maximum(least, mean), _UNKNOWN_TOKENS)
