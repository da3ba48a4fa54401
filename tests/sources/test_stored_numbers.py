"""Numbers of a store's answer, read many at once."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.sources.prometheus.matrix import read_matrix
from vllm_advisor.sources.prometheus.numbers import read_numbers

WRITTEN = st.one_of(
    st.integers(0, 10**20).map(str),
    st.integers(0, 10**16).map(str).map(lambda text: text.zfill(16)),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "0", "00000000", "99999999", "100000000", "9007199254740993"]),
)


def read(texts: list[str]) -> list[float]:
    """Return the numbers of some texts that stand side by side."""
    ends = 8 + np.cumsum([len(text) for text in texts])
    return read_numbers(b"........" + "".join(texts).encode(), np.append(8, ends[:-1]), ends).tolist()


@given(st.lists(WRITTEN, min_size=1, max_size=50))
def test_every_number_is_what_float_makes_of_it(texts: list[str]) -> None:
    """Long or short, whole or not, each is read to the last bit."""
    assert np.array_equal(read(texts), [float(text) for text in texts], equal_nan=True)


@pytest.mark.parametrize("text", ["", "1x", "x1", "1:2", "/5", "12345678:", "-", "0x10"])
def test_what_is_no_number_is_refused(text: str) -> None:
    """Characters beside the digits' own are no digits."""
    with pytest.raises(ValueError, match="could not convert"):
        read(["12", text, "34"])


def answer(result: object, kind: str = "matrix") -> bytes:
    """Return a query's answer."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def test_spaces_do_not_matter() -> None:
    """An answer with spaces is read like one without; times may be whole or not."""
    values = [[1764547200, "1"], [1764547215.5, "2.5"], [1764547230.123, "NaN"]]
    matrix = read_matrix(answer([{"metric": {"__name__": "x"}, "values": values}]))
    assert matrix.times(slice(None)).tolist() == [1764547200.0, 1764547215.5, 1764547230.123]
    assert matrix.values[:2].tolist() == [1.0, 2.5]
    assert math.isnan(matrix.values[2])


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"<html>",
        answer([], "vector"),
        answer([1764547200, "1"], "scalar"),
        answer([{"metric": {}, "value": [1764547200, "1"]}], "vector"),
        answer([{"metric": {}, "values": [["1764547200", "1"]]}]),
        answer([{"metric": {}, "values": [[1764547200, "one"]]}]),
    ],
)
def test_another_answer_is_refused(wrong: bytes) -> None:
    """What is no matrix of samples is said to be none."""
    with pytest.raises(ValueError):  # noqa: PT011 - the text is msgspec's or Python's
        read_matrix(wrong)
