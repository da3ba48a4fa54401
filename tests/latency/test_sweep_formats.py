"""Result files of other load testers, read as sweep files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_advisor.errors import InputError
from vllm_advisor.sources.sweep_file import SweepLevel, read_sweep, sweep_from_text

FOLDER = Path(__file__).parents[1] / "data" / "latency" / "sweeps"
VLLM_BENCH = json.loads((FOLDER / "vllm-bench-8.json").read_text(encoding="utf-8"))
GUIDELLM = json.loads((FOLDER / "guidellm.json").read_text(encoding="utf-8"))
AIPERF = json.loads((FOLDER / "aiperf-run.json").read_text(encoding="utf-8"))

AIPERF_OLD = {
    "input_config": {"loadgen": {"concurrency": 8}},
    "request_count": {"avg": 24},
    "inter_token_latency": {"unit": "ms", "avg": 55.45, "p50": 58.18, "p99": 72.22},
    "time_to_first_token": {"unit": "ms", "p99": 939.31},
    "output_token_throughput": {"avg": 115.12},
}
"""As AIPerf wrote it before its input configuration had phases."""

AIPERF_8 = {"mean": 55.45, "p50": 58.18, "p99": 72.22, "ttft": 939.31, "rate": 115.12, "requests": 24}
PRINTED: dict[str, dict[int, dict[str, float]]] = {
    "vllm-bench-2.json": {2: {"mean": 46.08, "p99": 78.38, "rate": 39.85, "requests": 48}},
    "vllm-bench-8.json": {8: {"mean": 54.06, "p99": 83.68, "rate": 128.05, "requests": 48}},
    "vllm-bench-16.json": {16: {"mean": 93.03, "p99": 136.51, "rate": 129.49, "requests": 96}},
    "vllm-sweep.csv": {
        2: {"mean": 54.99, "p99": 102.71, "ttft": 311.75, "rate": 34.92, "requests": 12},
        8: {"mean": 35.33, "p99": 48.36, "ttft": 423.48, "rate": 192.45, "requests": 24},
    },
    "guidellm.json": {
        2: {"mean": 49.25, "p50": 49.99, "rate": 36.77, "requests": 24},
        8: {"mean": 73.00, "p50": 56.09, "rate": 94.61, "requests": 24},
    },
    "aiperf-run.json": {8: AIPERF_8},
    "aiperf-repeats.json": {8: AIPERF_8},
    "aiperf-sweep.json": {
        2: {"mean": 50.68, "p50": 50.73, "p99": 72.32, "ttft": 352.30, "rate": 35.29, "requests": 24},
        8: AIPERF_8,
    },
}
"""What each tool said of its runs on its terminal or in its CSV, in ms: by file and concurrency."""


def _printed(level: SweepLevel) -> dict[str, float | None]:
    """Return a level as the tools print it."""
    times = {name: seconds * 1000 for name, seconds in level.tpot_seconds.items()}
    ttft = None if level.ttft_p99_seconds is None else level.ttft_p99_seconds * 1000
    return {**times, "ttft": ttft, "rate": level.output_tokens_per_second, "requests": level.requests}


@pytest.mark.parametrize("name", PRINTED)
def test_a_real_result_file_is_a_sweep(name: str) -> None:
    """Each run is a level at its concurrency, with the numbers that its tool printed."""
    levels = {level.concurrency: _printed(level) for level in read_sweep(FOLDER / name).levels}
    assert levels.keys() == PRINTED[name].keys()
    for concurrency, printed in PRINTED[name].items():
        found = {key: levels[concurrency][key] for key in printed}
        assert found == pytest.approx(printed, abs=0.006)


def test_a_file_of_an_older_aiperf_is_a_sweep(tmp_path: Path) -> None:
    """The concurrency stood under `loadgen` once."""
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(AIPERF_OLD), encoding="utf-8")
    (level,) = read_sweep(path).levels
    assert level.concurrency == 8
    assert level.tpot_seconds["mean"] == pytest.approx(0.05545)


def test_a_warm_up_is_no_level(tmp_path: Path) -> None:
    """The concurrency is that of the phase whose results these are."""
    warm_up = {"type": "concurrency", "kind": "warmup", "exclude_from_results": True, "concurrency": 64}
    phases = [warm_up, *AIPERF["input_config"]["phases"]]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(AIPERF | {"input_config": {"phases": phases}}), encoding="utf-8")
    assert [level.concurrency for level in read_sweep(path).levels] == [8]


def _guidellm_run(**strategy: object) -> dict[str, object]:
    return GUIDELLM["benchmarks"][0] | {"config": {"strategy": strategy}}


def test_runs_at_a_rate_are_left_out_of_guidellms_default_sweep(tmp_path: Path) -> None:
    """Of one at a time, as fast as can be, and at rates, the first has a concurrency: one."""
    runs = [
        _guidellm_run(type_="synchronous"),
        _guidellm_run(type_="throughput", max_concurrency=512),
        _guidellm_run(type_="constant", rate=2.0, max_concurrency=512),
    ]
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps({"benchmarks": runs}), encoding="utf-8")
    assert [level.concurrency for level in read_sweep(path).levels] == [1]


@pytest.mark.parametrize("joined", ["[{}, {}]", "{}\n{}\n"], ids=["list", "lines"])
def test_several_runs_are_several_levels(tmp_path: Path, joined: str) -> None:
    """As a JSON list, or as the lines that --append-result writes."""
    path = tmp_path / "results.json"
    runs = [json.dumps(VLLM_BENCH | {"max_concurrency": users}) for users in (16, 4)]
    path.write_text(joined.replace("{}", runs[0], 1).replace("{}", runs[1], 1), encoding="utf-8")
    assert [level.concurrency for level in read_sweep(path).levels] == [4, 16]


def test_the_table_of_a_long_vllm_sweep_is_a_sweep(tmp_path: Path) -> None:
    """Its `latencies` column holds all times in one field, longer than CSV readers take by themselves."""
    path = tmp_path / "summary.csv"
    latencies = ", ".join(["1.5654237219996503"] * 20_000)
    rows = ["max_concurrency,latencies,mean_tpot_ms", f'4,"[{latencies}]",12.0', f'8,"[{latencies}]",18.0']
    path.write_text("\n".join(rows), encoding="utf-8")
    levels = read_sweep(path).levels
    assert [level.tpot_seconds["mean"] for level in levels] == pytest.approx([0.012, 0.018])


@pytest.mark.parametrize(
    "document",
    [
        VLLM_BENCH | {"max_concurrency": None},
        VLLM_BENCH | {"request_rate": 1.5},
        {"benchmarks": [_guidellm_run(type_="poisson", rate=2.0)]},
        AIPERF | {"input_config": {"phases": [{"type": "poisson", "rate": 2.0, "concurrency": 8}]}},
        AIPERF_OLD | {"input_config": {"loadgen": {"concurrency": 8, "request_rate": 2.0}}},
    ],
    ids=["vllm", "vllm capped", "guidellm", "aiperf", "older aiperf"],
)
def test_a_run_at_a_request_rate_has_no_concurrency(tmp_path: Path, document: dict[str, object]) -> None:
    """A run at a rate is no level, whatever it was capped at, and that is what is said."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match="concurrency: expected a whole number, not None"):
        read_sweep(path)


@pytest.mark.parametrize("name", ["profile_export_aiperf.csv", "benchmarks.csv"])
def test_a_csv_of_these_tools_is_told_to_be_json(tmp_path: Path, name: str) -> None:
    """Their CSVs are tables for people; the line that refuses one names the file to give."""
    path = tmp_path / name
    path.write_text("Metric,avg,min,max\nInter Token Latency (ms),55.45,36.96,72.28\n", encoding="utf-8")
    with pytest.raises(InputError, match="of guidellm and AIPerf the JSON file is read"):
        read_sweep(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data(), document=st.sampled_from([VLLM_BENCH, GUIDELLM, AIPERF, AIPERF_OLD]), odd=JSON)
def test_a_tools_file_with_anything_in_it_is_read_or_refused(
    data: st.DataObject, document: dict[str, object], odd: object
) -> None:
    """Any value at any place gives levels or one clear error."""
    with suppress(InputError):
        sweep_from_text(json.dumps(_with(document, odd, data)))


def _with(node: object, odd: object, data: st.DataObject) -> object:
    """Return a document with one of its places, however deep, taken by something odd."""
    if isinstance(node, dict) and node:
        key = data.draw(st.sampled_from(sorted(node)))
        return node | {key: odd if data.draw(st.booleans()) else _with(node[key], odd, data)}
    if isinstance(node, list) and node:
        return [_with(node[0], odd, data), *node[1:]]
    return odd
