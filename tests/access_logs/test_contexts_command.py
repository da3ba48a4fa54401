"""`contexts` on traces and logs: the documented JSON, and one line for whatever is wrong."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from support.access_logs import usage_line
from support.lengths import TRACES, trace_lengths
from vllm_advisor.cli import main

KEYS = [
    "requests",
    "p50",
    "p90",
    "p99",
    "p999",
    "max",
    "recommended_max_model_len",
    "rejected_lines",
    "tradeoff",
]


def contexts(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, object]:
    """Run the command and return its JSON."""
    assert main(["contexts", *map(str, arguments), "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize("name", TRACES)
def test_percentiles_of_both_traces(test_data: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Within 0.5% of numpy on the raw rows, and the limit that follows from p999."""
    answer = contexts(capsys, test_data / "traces" / name)
    totals = sum(trace_lengths(test_data, name))
    assert list(answer) == KEYS
    assert (answer["requests"], answer["rejected_lines"]) == (totals.size, 0)
    assert answer["max"] == totals.max()
    for key, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        assert answer[key] == pytest.approx(np.quantile(totals, quantile), rel=0.005)
    limit = np.ceil(np.quantile(totals, 0.999) * 1.25 / 1024) * 1024
    assert answer["recommended_max_model_len"] in {limit, limit + 1024}
    rows = {row["quantile"]: row for row in answer["tradeoff"]}
    assert set(rows[0.999]) == {"quantile", "max_model_len", "requests_over", "requests_over_per_day"}
    assert rows[0.9]["requests_over"] == pytest.approx(np.sum(totals > rows[0.9]["max_model_len"]), rel=0.02)


def test_a_pool_gives_the_memory_ceiling_of_each_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """587,158 tokens of cache hold 47 sequences of 12,288; without a pool there is no such key."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(usage_line(9499, 1) for _ in range(3000)))
    rows = contexts(capsys, path, "--kv-tokens", "587158")["tradeoff"]
    assert {(row["max_model_len"], row["memory_ceiling"]) for row in rows} == {(12288, 47)}
    assert not any("memory_ceiling" in row for row in contexts(capsys, path)["tradeoff"])
    assert main(["contexts", str(path), "--kv-tokens", "587158"]) == 0
    assert "12288: 0 requests over it; 47 sequences in memory" in capsys.readouterr().out


def test_flags_change_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quantile, margin and rounding are taken from the command line."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(usage_line(tokens - 1, 1) for tokens in range(101, 201)))
    answer = contexts(capsys, path, "--quantile", "0.9", "--margin", "0", "--round-up-to", "10")
    assert answer["recommended_max_model_len"] == 200
    assert [row["quantile"] for row in answer["tradeoff"]] == [0.9, 0.95]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_compressed_files_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    """.gz and .zst files, also of several frames, hold the same lines."""
    path = tmp_path / f"a{suffix}"
    halves = [b"".join(usage_line(prompt, 5) for prompt in part) for part in (range(1, 30), range(30, 60))]
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(b"".join(map(pack, halves)) + pack(b"not json\n"))
    answer = contexts(capsys, path)
    assert (answer["requests"], answer["max"], answer["rejected_lines"]) == (59, 64, 1)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_standard_input_is_read(pack: Callable[[bytes], bytes]) -> None:
    """What is piped in is read as a file is, packed or not."""
    given = pack(b"".join(usage_line(prompt, 5) for prompt in range(1, 60)) + b"not json\n")
    command = [sys.executable, "-m", "vllm_advisor", "contexts", "-", "--json"]
    answer = json.loads(subprocess.run(command, input=given, capture_output=True, check=True).stdout)
    assert (answer["requests"], answer["max"], answer["rejected_lines"]) == (59, 64, 1)


def test_lines_from_the_future_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They do not count, since they would stretch the days that requests are told by."""
    path, now_seconds = tmp_path / "a.jsonl", time.time()
    dated = [usage_line(10, 1, now_seconds - 43_200 + 720 * number) for number in range(61)]
    path.write_bytes(b"".join(dated) + usage_line(9000, 1, now_seconds + 1e9))
    answer = contexts(capsys, path, "--quantile", "0.9", "--margin", "0", "--round-up-to", "10")
    assert (answer["requests"], answer["max"], answer["rejected_lines"]) == (61, 11, 1)


def test_parquet_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are fields, also nested and under names of their own; what is no Parquet is told so."""
    pyarrow = pytest.importorskip("pyarrow", reason="the optional extra parquet is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"usage": [{"prompt_tokens": prompt, "completion_tokens": 5} for prompt in range(1, 5001)]}
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(rows), path)
    answer = contexts(capsys, path)
    assert (answer["requests"], answer["max"]) == (5000, 5005)
    parquet.write_table(pyarrow.table({"ContextTokens": [7], "GeneratedTokens": [2]}), path)
    fields = ("--field", "prompt_tokens=ContextTokens", "--field", "completion_tokens=GeneratedTokens")
    assert contexts(capsys, path, "--format", "json", *fields)["max"] == 9
    path.write_bytes(b"no parquet")
    assert main(["contexts", str(path)]) == 1
    assert "is no Parquet file" in capsys.readouterr().err


def test_several_files_and_chosen_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of different formats add up; fields, models and matches choose among their lines."""
    one, other = tmp_path / "a.jsonl", tmp_path / "b.csv"
    lines = [{"in": 10, "out": 1, "m": "x", "t": "a"}, {"in": 20, "out": 1, "m": "x", "t": "b"}]
    one.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fields = ("--field", "prompt_tokens=in", "--field", "completion_tokens=out", "--field", "model=m")
    answer = contexts(capsys, one, "--format", "json", *fields, "--model", "x", "--match", "t=b")
    assert (answer["requests"], answer["max"]) == (1, 21)
    one.write_bytes(usage_line(10, 1))
    other.write_text("prompt_tokens,completion_tokens\n30,1\n")
    answer = contexts(capsys, one, other)
    assert (answer["requests"], answer["max"]) == (2, 31)


def test_people_are_told_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json the answer is text with the limit, its grade and the trade-off."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(usage_line(1000, 24) for _ in range(3000)) + b"broken\n")
    assert main(["contexts", str(path)]) == 0
    out = capsys.readouterr().out
    assert "--max-model-len  2048 (measured)" in out
    assert "3000 served" in out
    assert "1 broken" in out
    assert "at 99.9%" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["missing.jsonl"], "missing.jsonl: cannot be read: No such file or directory"),
        (["empty.jsonl"], "no request with token counts; found nothing"),
        (["text.log"], "no request with token counts; found 1 broken"),
        (["cut.gz"], "cut.gz: is damaged: "),
        (["false.gz"], "false.gz: cannot be read: Not a gzipped file"),
        (["false.zst"], "false.zst: is damaged: "),
        (["good.jsonl", "--quantile", "1.5"], "--quantile: expected a number under 1, not 1.5"),
        (["good.jsonl", "--margin", "-1"], "--margin: expected a number of at least 0, not -1.0"),
        (["good.jsonl", "--round-up-to", "0"], "--round-up-to: expected a number of at least 1, not 0"),
        (["good.jsonl", "--format", "xml"], "--format: expected 'auto', 'apisix'"),
        (["good.jsonl", "--field", "prompt_tokens"], "--field: expected NAME=VALUE, not 'prompt_tokens'"),
        (["good.jsonl", "--field", "tokens=x"], "--field: expected 'time', 'prompt_tokens'"),
        (["good.jsonl", "--format", "regex"], "--pattern: pattern goes with format: regex"),
        (
            ["good.jsonl", "--format", "regex", "--pattern", "("],
            "--pattern: is no regular expression",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    """Exit code 1, or 2 for a flag: one line that names it or the file, nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_bytes(b"")
    Path("text.log").write_bytes(b"hello there\n")
    Path("good.jsonl").write_bytes(usage_line(1, 1))
    packed = gzip.compress(b"".join(usage_line(number, 1) for number in range(1, 999)))
    Path("cut.gz").write_bytes(packed[: len(packed) // 2])
    Path("false.gz").write_bytes(b"no gzip")
    Path("false.zst").write_bytes(b"no zstandard")
    assert main(["contexts", *arguments]) == (2 if problem.startswith("--") else 1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("vllm-advisor contexts: " + problem)
