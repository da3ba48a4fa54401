"""Reading many lines at once comes to what reading each line does."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.access_logs import NOW_SECONDS, log_config, usage_line
from vllm_advisor.sources.access_logs import LineReader, Logged, LoggedRequest, Outcome, ServedBlock

SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"


def both_ways(content: bytes, *, at_once: int = 40, **settings: Any) -> tuple[LineReader, LineReader]:
    """Read content line by line and in blocks; check that requests, to the bit, and counts are the same."""
    log = log_config(**settings)
    one, other = LineReader(log), LineReader(log)
    singly = [request for line in content.split(b"\n") for request in one.read(line, NOW_SECONDS)]
    lines = re.findall(rb"[^\n]*\n|[^\n]+", content)
    blocks: list[Logged] = []
    for start in range(0, len(lines), at_once):
        blocks += other.read_block(b"".join(lines[start : start + at_once]), 0, NOW_SECONDS)
    assert +one.counts == +other.counts
    assert one.lines == other.lines
    assert Counter(map(told, singly)) == Counter(chain.from_iterable(map(all_told, blocks)))
    return one, other


def told(request: LoggedRequest) -> tuple[object, ...]:
    """Return what a request counts as."""
    lengths = request.prompt_tokens, request.output_tokens, request.max_tokens
    return request.outcome, request.time_seconds, *lengths, request.cut_by_length, request.limit_tokens


def all_told(logged: Logged) -> list[tuple[object, ...]]:
    """Return what a request, or each one of a block, counts as."""
    if isinstance(logged, LoggedRequest):
        return [told(logged)]
    columns = logged.time_seconds, logged.prompt_tokens, logged.output_tokens, logged.max_tokens
    rows = zip(*(column.tolist() for column in columns), logged.cut_by_length.tolist(), strict=True)
    return [
        (Outcome.SERVED, time, prompt, output, None if asked < 0 else asked, cut, None)
        for time, prompt, output, asked, cut in rows
    ]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.jsonl")), ids=lambda path: path.name)
@pytest.mark.parametrize("repeats", [1, 3, 12])
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
    lines = [usage_line(number, 2, NOW_SECONDS, request_id=str(number)) for number in range(1, 60)]
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


def served_lines(path: Path) -> list[bytes]:
    """Return the lines of a sample that tell of a served request each, the first of each length."""
    reader, found = LineReader(log_config()), dict[int, bytes]()
    for line in path.read_bytes().split(b"\n"):
        if [one.outcome for one in reader.read(line, NOW_SECONDS)] == [Outcome.SERVED]:
            found.setdefault(len(line), line)
    return list(found.values())


WRITERS = {path.stem: served_lines(path) for path in sorted(SAMPLES.glob("*.jsonl"))}
WRITERS["spaced"] = [json.dumps(json.loads(line)).encode() for line in WRITERS["app-openai-usage"]]
WRITERS["returns"] = [line + b"\r" for line in WRITERS["nginx-json"]]
WRITERS["without times"] = [line.replace(b'"ts"', b'"when"') for line in WRITERS["app-openai-usage"]]
WRITERS["with prompts"] = [
    line[:-1] + b',"text":"%b"}' % text
    for line in WRITERS["app-openai-usage"]
    for text in (b"", b"a" * 300, b'say \\"yes\\"\\n', b"\\u00e9 \\ud83d\\ude00", "é".encode(), b"{}")
]
WRITTEN = [
    *(
        b"null",
        b"true",
        b"false",
        b"0",
        b"-1",
        b"007",
        b"12",
        b"1e3",
        b"1.5",
        b"2.",
        b".5",
        b"123456789",
        b"{}",
    ),
    *(
        b'""',
        b'"-"',
        b'"length"',
        b'"12"',
        b'"0012"',
        b'"\xd9\xa3"',
        b'"x", "n": 3, "y": "z"',
        b'"{"',
        b'"{1}"',
    ),
    *(
        b'"\\"',
        b'"\\\\"',
        b'"\\x"',
        b'"\\ud800"',
        b'"a\tb"',
        b'"\xff"',
        b"4294967295",
        b"1" * 25,
        b"9007199254740993",
    ),
    *(
        b'"2026-11-30T09:15:60Z"',
        b'"2026-11-30T24:00:05Z"',
        b'"2026-13-30T09:15:00Z"',
        b'"2126-11-30T09:15:00Z"',
    ),
]
VALUE = re.compile(rb'"[^"]*"(?!\s*:)|(?<=[:\s])[\d.]+|true|false|null')
BYTES = [
    b'"',
    b"\\",
    b"0",
    b"7",
    b".",
    b"-",
    b",",
    b":",
    b"{",
    b"}",
    b" ",
    b"\n",
    b"\r",
    b"\0",
    b"\x1f",
    b"\xff",
    b"#",
]


def written(line: bytes, chance: random.Random) -> bytes:
    """Return a line as its writer may have written another one, or damaged."""
    kind = chance.choice(["digits"] * 12 + ["as is", "more digits", "value", "value", "byte", "cut"])
    if kind == "digits":
        share = chance.random()
        return re.sub(
            rb"\d", lambda d: b"%d" % chance.randrange(10) if chance.random() < share else d[0], line
        )
    if kind == "more digits":
        return re.sub(rb"\d+", lambda d: d[0] * chance.choice([1, 1, 1, 2, 3]), line)
    at = chance.randrange(len(line))
    if kind == "value" and (value := VALUE.search(line, at)):
        return line[: value.start()] + chance.choice(WRITTEN) + line[value.end() :]
    if kind == "byte":
        return line[:at] + chance.choice(BYTES) + line[at + chance.randrange(2) :]
    return line[:at] if kind == "cut" else line


LOGS: list[dict[str, Any]] = [
    {},
    {},
    {"models": ("qwen3-8b",)},
    {"match": {"model": "qwen3-8b"}},
    {"format": "json"},
]


@pytest.mark.parametrize("name", sorted(WRITERS))
@given(st.integers(0, 80), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_lines_of_one_writer_both_ways(name: str, number: int, seed: int) -> None:
    """However their values vary, and whatever damage is done to some of them."""
    chance = random.Random(seed)  # noqa: S311 - test lines
    lines = [written(chance.choice(WRITERS[name]), chance) for _ in range(number)]
    content = b"\n".join(lines) + chance.choice([b"\n", b""])
    both_ways(content, at_once=chance.choice([9, 25, 100]), **chance.choice(LOGS))


APART = {"docker-json-file", "higress-ai-log", "langfuse-observations", "mooncake", "otlp-genai-spans"}
"""Framed, or told by more than the values of a JSON object."""


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - APART))
def test_lines_of_every_plain_writer_are_read_at_once(name: str) -> None:
    """Nearly all of them, though some have fields that others have not."""
    reader, lines = LineReader(log_config()), WRITERS[name]
    for start in (0, 200):
        block = b"\n".join(numbered(lines[at % len(lines)], at) for at in range(start, start + 200)) + b"\n"
        found = reader.read_block(block, 0, NOW_SECONDS)
    assert reader.counts == {Outcome.SERVED: 400}
    assert sum(one.requests for one in found if isinstance(one, ServedBlock)) >= 190


def numbered(line: bytes, number: int) -> bytes:
    """Return a line with another id."""
    return re.sub(rb'(id": ?")[^"]*', lambda found: b"%b%024d" % (found[1], number), line)
