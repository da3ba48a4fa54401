"""Frames around lines are peeled off, whatever the format inside."""

from __future__ import annotations

import json

from support.access_logs import NOW_SECONDS, log_config, read_lines, served, usage_line
from vllm_advisor.sources.access_logs import LineReader, Outcome

STAMP = "2026-11-30T09:15:00.120123456Z"


def cri(text: bytes, tag: str = "F", stream: str = "stdout") -> bytes:
    """Return a line as containerd writes it."""
    return f"{STAMP} {stream} {tag} ".encode() + text.rstrip(b"\n")


def test_parts_are_joined_by_stream() -> None:
    """Parts of two streams interleave, and each record is whole again."""
    first, second = usage_line(1, 2), usage_line(3, 4)
    lines = [
        cri(first[:10], "P"),
        cri(second[:9], "P", "stderr"),
        cri(first[10:20], "P"),
        cri(second[9:], "F", "stderr"),
        cri(first[20:], "F"),
    ]
    reader, requests = read_lines(lines)
    assert served(requests) == [(3, 4), (1, 2)]
    assert reader.counts[Outcome.BROKEN] == 0


def test_a_part_without_its_end_is_broken() -> None:
    """What the end of the file leaves open is counted."""
    reader, requests = read_lines([cri(usage_line(1, 2)), cri(usage_line(3, 4)[:10], "P")])
    assert served(requests) == [(1, 2)]
    assert reader.counts[Outcome.BROKEN] == 1


def test_docker_wraps_any_format() -> None:
    """A CSV log from a container is read like one from a file."""
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens", "2026-11-30 09:15:05.9015860,3320,346"]
    lines = [json.dumps({"log": f"{row}\n", "stream": "stdout", "time": STAMP}).encode() for row in rows]
    reader, requests = read_lines(lines)
    assert served(requests) == [(3320, 346)]
    assert reader.format_name == "azure_llm_trace"


def test_loki_exports_are_read() -> None:
    """Both the push format, with many lines in one, and logcli's are read."""
    values = [["1796030100000000000", usage_line(1, 2).decode()], ["1796030100000000001", "INFO started"]]
    push = json.dumps({"streams": [{"stream": {"app": "x"}, "values": values}]}).encode()
    reader, requests = read_lines([push])
    assert served(requests) == [(1, 2)]
    assert reader.counts[Outcome.BROKEN] == 1
    logcli = json.dumps({"labels": {}, "line": usage_line(5, 6).decode(), "timestamp": STAMP}).encode()
    assert served(read_lines([logcli])[1]) == [(5, 6)]


def test_parts_without_end_take_bounded_memory() -> None:
    """A stream of parts that never ends is given up, and reading goes on after it."""
    reader = LineReader(log_config())
    for _ in range(40_000):
        reader.read(cri(b"x", "P"), 0.0)
    assert reader.counts[Outcome.BROKEN] >= 1
    assert len(reader.standing.opened) == 0
    reader.read(cri(b"", "F"), 0.0)
    reader.read(cri(usage_line(1, 2)), NOW_SECONDS)
    assert reader.counts[Outcome.SERVED] == 1


def test_a_quote_without_its_pair_takes_bounded_memory() -> None:
    """A CSV field that never ends is given up as one broken row."""
    reader = LineReader(log_config(format="csv"))
    reader.read(b"prompt_tokens,completion_tokens,note", 0.0)
    for _ in range(40_000):
        reader.read(b'1,2,"an open field' if reader.lines == 1 else b"more of it" * 10, 0.0)
    assert reader.counts[Outcome.BROKEN] >= 1
    assert reader.counts[Outcome.SERVED] == 0
