"""Takes a query's answer apart: the samples of all its series, as arrays."""

from __future__ import annotations

import msgspec
import numpy as np

from vllm_advisor.sources.engine_series import Floats
from vllm_advisor.sources.prometheus.numbers import Positions, Words, read_numbers, words_before

__all__ = ["Matrix", "read_matrix"]

_QUOTE, _COMMA = ord('"'), ord(",")
_SPACES = b" \t\r\n"
_ROOM = bytes(8)
"""Before the first number, as `read_numbers` needs it."""


_NO_VALUES = msgspec.Raw(b"[]")


class _Written(msgspec.Struct, frozen=True, gc=False):
    metric: msgspec.Raw
    values: msgspec.Raw = _NO_VALUES
    """Missing where the samples are native histograms, which no page of an engine has."""


class _Data(msgspec.Struct, frozen=True):
    resultType: str  # noqa: N815 - as the API spells it
    result: list[_Written]


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data
    warnings: list[str] = []
    isPartial: bool = False  # noqa: N815 - as VictoriaMetrics spells it


class Matrix:
    """Every sample of an answer, series after series.

    Args:
        metrics: each series' labels as JSON, the name under ``__name__``.
        samples: each series' samples as JSON: ``[[1764547200.123,"42"],...]``, without spaces.
        warning: what the store says is missing, empty when nothing is.

    Raises:
        ValueError: they are not like that.
    """

    def __init__(self, metrics: list[bytes], samples: list[bytes], warning: str = "") -> None:
        self._text = b"".join([_ROOM, *samples])
        characters = np.frombuffer(self._text, np.uint8)
        quotes = np.flatnonzero(characters == _QUOTE)
        opening, closing = quotes[::2], quotes[1::2]
        if len(quotes) % 2 or (characters[opening - 1] != _COMMA).any():
            raise ValueError("samples that are no pairs of time and value")
        ends = np.searchsorted(opening, len(_ROOM) + np.cumsum(list(map(len, samples))))
        self.metrics = metrics
        self.warning = warning
        self.firsts: Positions = np.append(0, ends[:-1])
        """Index of each series' first sample."""
        self.counts: Positions = ends - self.firsts
        """How many samples each series has."""
        if not self.counts.all():
            raise ValueError("a series without pairs of time and value")
        self.values: Floats = read_numbers(self._text, opening + 1, closing)
        """Of all samples."""
        self.moments: Words = words_before(self._text, opening - 1)
        """The last eight characters of each sample's time: equal ones are equal times within 10,000 s."""
        self._time_ends = opening - 1

    def times(self, samples: slice | Positions) -> Floats:
        """Return the Unix times of some samples."""
        ends = self._time_ends[samples].tolist()
        return np.array([float(self._text[self._text.rfind(b"[", 0, end) + 1 : end]) for end in ends])

    def newest_seconds(self) -> float | None:
        """Return the Unix time of the newest sample, None without any."""
        return float(self.times(self.firsts + self.counts - 1).max()) if len(self.values) else None


def read_matrix(answer: bytes) -> Matrix:
    """Return the samples of an answer.

    Raises:
        ValueError: it is not the answer to a query for raw samples.
    """
    read = msgspec.json.decode(answer, type=_Answer)
    data = read.data
    if data.resultType != "matrix":
        raise ValueError(f"expected a matrix, not a {data.resultType}")
    result = [one for one in data.result if one.values != _NO_VALUES]
    samples = [bytes(one.values) for one in result]
    if any(space in one for one in samples[:1] for space in _SPACES):
        samples = [one.translate(None, _SPACES) for one in samples]
    warning = "; ".join(read.warnings) or ("a part of it alone" if read.isPartial else "")
    return Matrix([bytes(one.metric) for one in result], samples, warning)
