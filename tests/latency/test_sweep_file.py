"""Sweep files: what is read, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.errors import InputError
from vllm_advisor.sources.sweep_file import (
    Sweep,
    SweepLevel,
    read_sweep,
    sweep_from_document,
    sweep_to_document,
)


def _file(tmp_path: Path, text: str, name: str = "sweep.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_and_json_with_the_same_columns_say_the_same(tmp_path: Path) -> None:
    """The two formats are one: same column names, same levels."""
    levels = [
        {"concurrency": 8, "tpot_mean": 0.016, "tpot_p99": 0.02, "ttft_p99": 0.3, "requests": 50},
        {"concurrency": 24, "tpot_mean": 0.025, "tpot_p99": 0.03, "ttft_p99": 0.4, "requests": 90},
    ]
    header = ",".join(levels[0])
    rows = [",".join(str(value) for value in level.values()) for level in levels]
    from_csv = read_sweep(_file(tmp_path, "\n".join([header, *rows])))
    from_json = read_sweep(_file(tmp_path, json.dumps({"engine": {}, "levels": levels}), "sweep.json"))
    assert from_csv == from_json
    assert from_csv.levels[1].tpot_seconds == {"mean": 0.025, "p99": 0.03}
    assert from_csv.levels[1].requests == 90


def test_a_rate_per_user_is_the_inverse_of_the_mean(tmp_path: Path) -> None:
    """62 tokens a second for each user are 16.13 ms a token."""
    sweep = read_sweep(_file(tmp_path, "concurrency, tokens_per_second_per_user\n8, 62\n"))
    assert sweep.levels[0].tpot_seconds["mean"] == pytest.approx(0.016129, abs=1e-6)


def test_levels_are_put_in_order(tmp_path: Path) -> None:
    """Levels may be measured in any order."""
    sweep = read_sweep(_file(tmp_path, "concurrency,tpot_p999\n24,0.03\n8,0.02\n"))
    assert [level.concurrency for level in sweep.levels] == [8, 24]
    assert sweep.levels[0].tpot_seconds == {"p99.9": 0.02}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.csv", "users,tpot_mean\n8,0.1\n", "s.csv:1: concurrency: expected a column named concurrency"),
        (
            "s.csv",
            "concurrency,tpot_mean\n8,0.1\n9,x\n",
            "s.csv:3: tpot_mean: expected a number over zero, not 'x'",
        ),
        (
            "s.csv",
            "concurrency,tpot_mean\n8,-1\n",
            "s.csv:2: tpot_mean: expected a number over zero, not '-1'",
        ),
        (
            "s.csv",
            "concurrency,tpot_mean\n8.5,0.1\n",
            "s.csv:2: concurrency: expected a whole number, not '8.5'",
        ),
        ("s.csv", "concurrency,tpot_mean\n", "s.csv: holds no level"),
        (
            "s.csv",
            "concurrency,ttft_p99\n8,0.1\n",
            "s.csv:2: tpot_mean: expected tpot_mean, a quantile such as",
        ),
        (
            "s.json",
            '{"levels": [{"concurrency": 8, "tpot_mean": true}]}',
            "s.json: levels[0].tpot_mean: expected",
        ),
        ("s.json", '{"levels": [3]}', "s.json: levels[0]: expected an object"),
        ("s.json", '{"level": []}', "s.json: levels: expected an object with a list of levels"),
        ("s.json", '{"levels": [],\n', "s.json:2: is not JSON:"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    """One line: file, line or key, and what was expected."""
    with pytest.raises(InputError) as caught:
        read_sweep(_file(tmp_path, text, name))
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_a_missing_file_and_binary_are_refused(tmp_path: Path) -> None:
    """No traceback for a file that is not there or is not text."""
    with pytest.raises(InputError, match="cannot be read"):
        read_sweep(tmp_path / "none.json")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="not UTF-8"):
        read_sweep(tmp_path / "binary.csv")


_SECONDS = st.floats(0.0001, 10)
_LEVELS = st.builds(
    SweepLevel,
    concurrency=st.integers(1, 4096),
    tpot_seconds=st.dictionaries(st.sampled_from(["mean", "p50", "p99", "p99.9"]), _SECONDS, min_size=1),
    ttft_p99_seconds=st.none() | _SECONDS,
    output_tokens_per_second=st.none() | st.floats(0, 1e6),
    requests=st.none() | st.integers(0, 10**6),
)


@given(st.lists(_LEVELS, min_size=1, max_size=5, unique_by=lambda level: level.concurrency))
def test_what_is_written_is_read_back(levels: list[SweepLevel]) -> None:
    """A sweep survives its file."""
    sweep = Sweep(tuple(sorted(levels, key=lambda level: level.concurrency)), {"model": "m"})
    assert sweep_from_document(json.loads(json.dumps(sweep_to_document(sweep)))) == sweep
