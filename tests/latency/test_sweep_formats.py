"""Result files of other load testers, read as sweep files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_advisor.errors import InputError
from vllm_advisor.sources.sweep_file import SweepLevel, read_sweep

VLLM_BENCH = {
    "max_concurrency": 8,
    "completed": 100,
    "output_throughput": 420.5,
    "mean_tpot_ms": 18.0,
    "median_tpot_ms": 17.5,
    "p99_tpot_ms": 24.0,
    "p99_ttft_ms": 310.0,
    "mean_itl_ms": 19.0,
}
"""The keys that `vllm bench serve` 0.32 writes, with a round number each."""

GUIDELLM = {
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 8}},
            "metrics": {
                "request_totals": {"successful": 100},
                "time_per_output_token_ms": {"successful": {"mean": 21.0}},
                "inter_token_latency_ms": {
                    "successful": {"mean": 18.0, "percentiles": {"p01": 15.0, "p50": 17.5, "p99": 24.0}}
                },
                "time_to_first_token_ms": {"successful": {"percentiles": {"p99": 310.0}}},
                "output_tokens_per_second": {"successful": {"mean": 420.5}},
            },
        }
    ]
}

AIPERF = {
    "input_config": {"loadgen": {"concurrency": 8}},
    "request_count": {"avg": 100},
    "inter_token_latency": {"unit": "ms", "avg": 18.0, "p50": 17.5, "p99": 24.0},
    "time_to_first_token": {"unit": "ms", "p99": 310.0},
    "output_token_throughput": {"avg": 420.5},
}

EXPECTED = SweepLevel(
    concurrency=8,
    tpot_seconds={"mean": 0.018, "p50": 0.0175, "p99": 0.024},
    ttft_p99_seconds=0.31,
    output_tokens_per_second=420.5,
    requests=100,
)


@pytest.mark.parametrize("document", [VLLM_BENCH, GUIDELLM, AIPERF], ids=["vllm bench", "guidellm", "aiperf"])
def test_a_result_file_is_a_sweep(tmp_path: Path, document: dict[str, object]) -> None:
    """One run says what one level of a sweep file would, in seconds."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    (level,) = read_sweep(path).levels
    assert dict(level.tpot_seconds) == pytest.approx(EXPECTED.tpot_seconds)
    assert level.ttft_p99_seconds == pytest.approx(EXPECTED.ttft_p99_seconds)
    assert (level.concurrency, level.requests) == (EXPECTED.concurrency, EXPECTED.requests)
    assert level.output_tokens_per_second == EXPECTED.output_tokens_per_second


@pytest.mark.parametrize("joined", ["[{}, {}]", "{}\n{}\n"], ids=["list", "lines"])
def test_several_runs_are_several_levels(tmp_path: Path, joined: str) -> None:
    """As a JSON list, or as the lines that --append-result writes."""
    path = tmp_path / "results.json"
    runs = [json.dumps(VLLM_BENCH | {"max_concurrency": users}) for users in (16, 4)]
    path.write_text(joined.replace("{}", runs[0], 1).replace("{}", runs[1], 1), encoding="utf-8")
    assert [level.concurrency for level in read_sweep(path).levels] == [4, 16]


def test_the_summary_table_of_a_vllm_sweep_is_a_sweep(tmp_path: Path) -> None:
    """`vllm bench sweep serve` writes one row a run, repeats included."""
    path = tmp_path / "summary.csv"
    rows = ["max_concurrency,run_number,mean_tpot_ms,p99_tpot_ms", "4,0,12.0,15.0", "8,0,18.0,24.0"]
    path.write_text("\n".join(rows), encoding="utf-8")
    levels = read_sweep(path).levels
    assert [level.tpot_seconds["p99"] for level in levels] == pytest.approx([0.015, 0.024])


def test_a_run_at_a_request_rate_has_no_concurrency(tmp_path: Path) -> None:
    """A run without a concurrency limit is no level, and that is what is said."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(VLLM_BENCH | {"max_concurrency": None}), encoding="utf-8")
    with pytest.raises(InputError, match="concurrency: expected a whole number, not None"):
        read_sweep(path)
