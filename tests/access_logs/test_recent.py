"""Records seen before are known again, whether they come one by one or many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vllm_advisor.sources.access_logs.recent import LONGEST_NAME_BYTES, Recent, hash_of, hashes_of


def as_columns(names: list[str]) -> NDArray[np.uint64]:
    """Return the hashes of names that stand in a row of bytes each, with other bytes after them."""
    letters = [name.encode() for name in names]
    width = -(-max(map(len, letters)) // 8) * 8
    rows = b"".join(name + b"#" * (width - len(name)) for name in letters)
    lengths = np.array([len(name) for name in letters], np.int64)
    return hashes_of(np.frombuffer(rows, "<u8").reshape(len(names), -1), lengths)


@given(st.lists(st.text(min_size=1, max_size=LONGEST_NAME_BYTES // 4), min_size=1, max_size=20))
def test_names_hash_alike_alone_and_in_columns(names: list[str]) -> None:
    """Whatever their lengths and whatever follows them."""
    assert as_columns(names).tolist() == [hash_of(name) for name in names]


def test_names_that_differ_little_hash_differently() -> None:
    """Counted ids, in decimal and in hex, with and without what they begin with."""
    names = [
        form.format(number) for form in ("{}", "{:016x}", "chatcmpl-{:08d}-0") for number in range(50_000)
    ]
    hashes = np.concatenate(
        [as_columns(names[start : start + 50_000]) for start in range(0, 150_000, 50_000)]
    )
    assert np.unique(hashes).size == len(set(names))


@pytest.mark.parametrize("at_once", [1, 7, 100, 250])
def test_the_last_names_are_known_and_old_ones_forgotten(at_once: int) -> None:
    """At least the last hundred, and none that is older than three hundred, over many generations."""
    recent, names = Recent(100), [f"name-{number}" for number in range(30_000)]
    for start in range(0, len(names), at_once):
        if at_once == 1:
            assert not recent.seen((names[start],))
        else:
            new = as_columns(names[start : start + at_once])
            assert not recent.known(new).any()
            recent.remember(new)
    assert recent.known(as_columns(names[-100:])).all()
    assert not recent.known(as_columns(names[: -2 * max(at_once, 100) - 100])).any()
    assert recent.copy().seen((names[-1],))


def test_names_alone_and_in_columns_know_each_other() -> None:
    """A name noted one way is known the other way, and any one of a record's names tells it."""
    recent = Recent(100)
    recent.remember(as_columns(["a", "b"]))
    assert recent.seen(("new", "b"))
    assert recent.known(as_columns(["new", "other"])).tolist() == [True, False]
