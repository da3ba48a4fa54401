"""No line, however it is damaged, raises, takes unbounded memory, or leaves a word of its text behind."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.access_logs import NOW_SECONDS, log_config, usage_line
from vllm_advisor.evidence.lengths import ContextLengths
from vllm_advisor.sources.access_logs import LineReader, LogTail, Outcome
from vllm_advisor.sources.access_logs.formats import FORMATS
from vllm_advisor.store import Store

SAMPLES = Path(__file__).parents[1] / "data" / "access_logs"
LINES = [
    line
    for path in sorted(SAMPLES.iterdir())
    if path.suffix in {".log", ".jsonl", ".csv"}
    for line in path.read_bytes().split(b"\n")
    if line
]
NUMBERS = [b"-1", b"1e999", b"null", b'""', b"[]", b"{}", b"true", b'"NaN"', b"9" * 400]
NAMES = ["auto", *sorted(FORMATS)]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A line of some sample, cut, spliced with another, or with bytes changed."""
    line, other = draw(st.sampled_from(LINES)), draw(st.sampled_from(LINES))
    kind = draw(st.sampled_from(["as is", "cut", "splice", "insert", "numbers"]))
    at = draw(st.integers(0, len(line)))
    if kind == "cut":
        return line[:at]
    if kind == "splice":
        return line[:at] + other[draw(st.integers(0, len(other))) :]
    if kind == "insert":
        return line[:at] + draw(st.binary(max_size=12)) + line[at:]
    if kind == "numbers":
        number = draw(
            st.sampled_from([b"-1", b"1e999", b"null", b'""', b"[]", b"{}", b"true", b'"NaN"', b"9" * 400])
        )
        return re.sub(rb"\d+", lambda _: number, line, count=draw(st.integers(1, 30)))
    return line


@given(st.lists(damaged() | st.binary(max_size=80), max_size=8), st.sampled_from(NAMES))
@settings(max_examples=700, deadline=None)
def test_damaged_lines_of_any_format_are_counted(lines: list[bytes], name: str) -> None:
    """Every line is counted under some outcome, and what counts as served can have been."""
    reader = LineReader(log_config(format=name))
    requests = [
        request for line in lines for part in line.split(b"\n") for request in reader.read(part, NOW_SECONDS)
    ]
    reader.finish()
    for request in requests:
        assert request.time_seconds is not None
        assert 0 <= request.time_seconds <= NOW_SECONDS + 300
        if request.outcome is Outcome.SERVED:
            assert request.prompt_tokens is not None
            assert request.output_tokens is not None
            assert 0 < request.prompt_tokens <= 100_000_000
            assert 0 < request.output_tokens <= 100_000_000
    lengths = ContextLengths(86_400.0)
    for request in requests:
        lengths.observe(request)
    lengths.snapshot(NOW_SECONDS)


@given(st.lists(damaged(), max_size=12), st.integers(0, 11), st.sampled_from(NAMES))
@settings(max_examples=150, deadline=None)
def test_a_reader_that_takes_over_reads_the_same(lines: list[bytes], at: int, name: str) -> None:
    """Stopping after any line and going on with another reader changes nothing."""
    whole = b"".join(line.replace(b"\n", b" ") + b"\n" for line in lines)
    content = [line + b"\n" for line in whole.split(b"\n")[:-1]]
    log = log_config(format=name, fields={"id": "no.such.field"})
    one, first, second = LineReader(log), LineReader(log), LineReader(log)
    place = 0
    for number, line in enumerate(content):
        if number == at:
            second.resume(first.standing, lambda where: whole[where[0] : where[0] + where[1]])
        one.read(line, NOW_SECONDS, (place, len(line)))
        (second if number >= at else first).read(line, NOW_SECONDS, (place, len(line)))
        place += len(line)
    assert +one.counts == +(first.counts + second.counts)


WORDS = "the-words-of-a-prompt"


def test_no_text_of_a_prompt_is_kept(tmp_path: Path) -> None:
    """Neither requests, nor counts, nor state, nor the file on disk hold a word of a line's text."""
    log_file = tmp_path / "a.log"
    stamp = b"2026-11-30T09:15:00.1Z stdout "
    lines = [
        usage_line(10, 2, text=WORDS, messages=[{"role": "user", "content": WORDS}]),
        usage_line(10, 2, request_id=WORDS),
        json.dumps({"status": 400, "usage": None, "error": {"message": f"maximum {WORDS}"}}).encode(),
        f'{{"prompt": "{WORDS}'.encode(),
        f"Received request chatcmpl-1: prompt: '{WORDS}', params: SamplingParams(n=1)".encode(),
        b"".join(usage_line(10, 2, text=WORDS).split(b"\n"))[:60],
    ]
    log_file.write_bytes(b"".join(stamp + b"F " + line.rstrip(b"\n") + b"\n" for line in lines))
    with log_file.open("ab") as file:
        file.write(stamp + b"P " + WORDS.encode() + b"\n" + stamp + b"F x" + WORDS.encode())
    tail, lengths, store = LogTail(log_config(log_file)), ContextLengths(1e6), Store(tmp_path / "data")
    requests = tail.poll(NOW_SECONDS)
    for request in requests:
        lengths.observe(request)
    store.save({"tail": tail.state(), "lengths": lengths.state()})
    store.close()
    tail.close()
    kept = repr((requests, tail.counts, tail.state(), lengths.state(), lengths.snapshot(NOW_SECONDS)))
    on_disk = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir())
    assert len(requests) >= 3
    assert WORDS not in kept
    assert WORDS.encode() not in on_disk


@pytest.mark.parametrize("name", NAMES)
def test_endless_files_take_bounded_memory(name: str) -> None:
    """Distinct ids, open records and lines without sense do not pile up."""
    reader = LineReader(log_config(format=name))
    tracemalloc.start()
    for number in range(3000):
        reader.read(usage_line(10, 2, request_id=f"{number:0200d}"), NOW_SECONDS)
        reader.read(b'"' + b"x" * 100, NOW_SECONDS)
        reader.read(b"2026-11-30T09:15:00.1Z stdout P " + b"x" * 100, NOW_SECONDS)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 4_000_000
