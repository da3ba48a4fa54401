"""Reading many lines at once comes to what reading each line does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.access_logs import NOW_SECONDS, log_config, usage_line
from vllm_advisor.evidence.lengths import ContextLengths, ContextSnapshot
from vllm_advisor.sources.access_logs import LineReader, Outcome, ServedBlock

SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"


def both_ways(content: bytes, **settings: Any) -> tuple[LineReader, LineReader]:
    """Read content line by line and in blocks; check that requests and counts are the same."""
    log = log_config(**settings)
    one, other = LineReader(log), LineReader(log)
    first, second = ContextLengths(1e9), ContextLengths(1e9)
    for line in content.split(b"\n"):
        for request in one.read(line, NOW_SECONDS):
            first.observe(request)
    lines = content.splitlines(keepends=True)
    for start in range(0, len(lines), 7):
        for logged in other.read_block(b"".join(lines[start : start + 7]), 0, NOW_SECONDS):
            second.observe(logged)
    assert +one.counts == +other.counts
    assert one.lines == other.lines
    alike(first.snapshot(NOW_SECONDS), second.snapshot(NOW_SECONDS))
    return one, other


def alike(one: ContextSnapshot, other: ContextSnapshot) -> None:
    """Check that two windows hold the same."""
    for kind in ("total", "prompt", "output", "requested", "cut"):
        assert (getattr(one, kind).counts == getattr(other, kind).counts).all(), kind
    assert one.outcomes == other.outcomes
    assert one.longest_tokens == other.longest_tokens
    assert one.window_seconds == pytest.approx(other.window_seconds, abs=1e-5)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.jsonl")), ids=lambda path: path.name)
@pytest.mark.parametrize("repeats", [1, 3])
def test_every_sample_both_ways(path: Path, repeats: int) -> None:
    """Broken lines, repeats and all, whatever the format."""
    both_ways((path.read_bytes().rstrip(b"\n") + b"\n") * repeats)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "ts": st.sampled_from(
        ["2026-11-30T09:15:00.5Z", "2026-11-30T09:15:01Z", "2026-11-30T10:15:00+01:00", 1796030100, None, "?"]
    ),
    "status": st.sampled_from([200, 201, 400, 0, "200", None, True]),
    "finish_reason": st.sampled_from(["stop", "length", None]),
    "error": st.sampled_from([None, "", "boom", {"message": "boom"}, {}, []]),
    "cache_hit": st.sampled_from([None, False, True, "True"]),
    "max_tokens": st.sampled_from([None, 1, 500, -1, "7"]),
    "max_completion_tokens": st.sampled_from([None, 9]),
    "n": st.sampled_from([None, 1, 2]),
    "uri": st.sampled_from(["/v1/chat/completions", "/v1/embeddings", None]),
    "method": st.sampled_from(["POST", "GET", None]),
    "request_id": st.sampled_from(["a", "b", "c", "d", 5, None]),
    "model": st.sampled_from(["m", None]),
    "request": st.sampled_from([{"max_tokens": 5}, {"n": 2}, "text", None, []]),
    "choices": st.sampled_from([[{"finish_reason": "length"}], {"finish_reason": "length"}, None]),
    "response": st.sampled_from([{"status": 500}, "text", None]),
    "unread": st.sampled_from(["x\u00e9", {"usage": 1}, [1, [2]]]),
}
USAGES = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": st.sampled_from([1, 20, 0, -1, 1.5, "12", None, 10**12]),
        "completion_tokens": st.sampled_from([1, 30, 0, None, "3"]),
        "total_tokens": st.sampled_from([2, 21, 50, None]),
        "input_tokens": st.sampled_from([8]),
    },
)
GOOD = {"usage": {"prompt_tokens": 20, "completion_tokens": 30}, "ts": "2026-11-30T09:15:00.25Z"}


ODD = [b"", b"  ", b"{broken", b"[]", b'{"a": "\xff"}', b"\0", b'INFO:  1.1.1.1:2 - "GET / HTTP/1.1" 200']


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record like a good one but for a few fields, or a line that is none."""
    if draw(st.integers(0, 12)) == 0:
        return draw(st.sampled_from(ODD))
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=4, unique=True))
    record = {**GOOD, **{name: draw(VALUES[name]) for name in names}}
    if draw(st.integers(0, 4)) == 0:
        record["usage"] = draw(USAGES | st.none())
    return json.dumps(record, ensure_ascii=False).encode()


@given(st.lists(records(), min_size=1, max_size=40), st.sampled_from(["auto", "json", "openai", "nginx"]))
@settings(max_examples=400, deadline=None)
def test_lines_of_every_kind_both_ways(lines: list[bytes], name: str) -> None:
    """Fields that are missing, empty, of other types or contradicting come out the same."""
    both_ways(b"\n".join(lines) + b"\n", format=name)


def test_of_two_records_of_one_request_the_first_counts() -> None:
    """Also where the first is read on its own and the second among many."""
    lines = [usage_line(number, 2, NOW_SECONDS, request_id=str(number)) for number in range(1, 30)]
    lines[10:10] = [usage_line(777, 2, NOW_SECONDS, request_id="12", n="1")]
    one, other = both_ways(b"".join(lines))
    assert one.counts[Outcome.DUPLICATE] == other.counts[Outcome.DUPLICATE] == 1


def test_lines_that_are_alike_are_read_at_once() -> None:
    """After the first line the rest of a block comes as columns."""
    reader = LineReader(log_config())
    content = b"".join(usage_line(number, 2, NOW_SECONDS, request_id=str(number)) for number in range(1, 101))
    first, block = reader.read_block(content, 0, NOW_SECONDS)
    assert not isinstance(first, ServedBlock)
    assert isinstance(block, ServedBlock)
    np.testing.assert_array_equal(block.prompt_tokens, np.arange(2, 101))
    assert reader.counts[Outcome.SERVED] == 100


def test_a_line_that_is_not_alike_costs_itself_alone() -> None:
    """A failure among many served requests leaves the others to be read at once."""
    lines = [usage_line(number, 2, NOW_SECONDS) for number in range(1, 101)]
    lines[50] = json.dumps({"status": 500, "usage": None}).encode() + b"\n"
    reader = LineReader(log_config())
    found = reader.read_block(b"".join(lines), 0, NOW_SECONDS)
    assert [one.requests for one in found if isinstance(one, ServedBlock)] == [98]
    assert reader.counts == {Outcome.SERVED: 99, Outcome.FAILED: 1}
