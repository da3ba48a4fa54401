"""Takes a query's answer apart: of every series its samples, as arrays."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.prometheus.numbers import read_numbers, words_before

__all__ = ["RawSeries", "read_matrix"]

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

_QUOTE, _COMMA = ord('"'), ord(",")
_SPACES = b" \t\r\n"
_ROOM = bytes(8)
"""Before the first number, as `read_numbers` needs it."""


class RawSeries(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One series.

    Args:
        metric: its labels as JSON, the name under ``__name__``.
        times: of the samples, Unix time, ascending; series with the same times share one array.
        values: of the samples.
    """

    metric: bytes
    times: Floats
    values: Floats


class _Written(msgspec.Struct, frozen=True, gc=False):
    metric: msgspec.Raw
    values: msgspec.Raw


class _Data(msgspec.Struct, frozen=True):
    resultType: str  # noqa: N815 - as the API spells it
    result: list[_Written]


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data


def read_matrix(answer: bytes) -> list[RawSeries]:
    """Return the series of an answer.

    Raises:
        ValueError: it is not the answer to a query for raw samples.
    """
    data = msgspec.json.decode(answer, type=_Answer).data
    if data.resultType != "matrix":
        raise ValueError(f"expected a matrix, not a {data.resultType}")
    written = [bytes(one.values) for one in data.result]
    text = b"".join([_ROOM, *written])
    if any(space in text for space in _SPACES):
        written = [one.translate(None, _SPACES) for one in written]
        text = b"".join([_ROOM, *written])
    samples = _Samples(text)
    ends = np.searchsorted(samples.opening, len(_ROOM) + np.cumsum(list(map(len, written)))).tolist()
    return [
        RawSeries(bytes(one.metric), samples.times(first, end), samples.values[first:end])
        for one, (first, end) in zip(data.result, pairwise([0, *ends]), strict=True)
    ]


class _Samples:
    """Every sample of ``[[1764547200.123,"42"],...]``: values stand in quotes, times before them."""

    def __init__(self, text: bytes) -> None:
        bytes_ = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(bytes_ == _QUOTE)
        self.opening = quotes[::2]
        if len(quotes) % 2 or (bytes_[self.opening - 1] != _COMMA).any():
            raise ValueError("samples that are no pairs of time and value")
        self.values = read_numbers(text, self.opening + 1, quotes[1::2])
        self._text = text
        self._endings = words_before(text, self.opening - 1).tobytes()
        self._times: dict[bytes, Floats] = {}

    def times(self, first: int, end: int) -> Floats:
        """Return the times of some samples, read once where their last eight characters are the same.

        Those tell times apart that lie less than 10,000 s from each other, as in one answer they do.
        """
        endings = self._endings[8 * first : 8 * end]
        times = self._times.get(endings)
        if times is None:
            commas = (self.opening[first:end] - 1).tolist()
            times = np.array([float(self._text[self._text.rfind(b"[", 0, at) + 1 : at]) for at in commas])
            self._times[endings] = times
        return times
