"""The advice of the running daemon, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.advice_pages import LOG_FIELDS, ScriptedEngine, Situation
from support.daemon_process import DaemonProcess, daemon_process
from support.live_engines import live_engines
from support.memory import LLAMA_70B, saved

SITUATIONS = {
    "memory": Situation(118, 34, 0.985, tpot_seconds=0.046, preemptions_per_second=1.6),
    "latency": Situation(256, 0, 0.41, tpot_seconds=0.118, lengths=((500, 20, 1.0),)),
    "cap": Situation(256, 60, 0.44, tpot_seconds=0.038, lengths=((500, 20, 1.0),)),
    "quiet": Situation(6, 0, 0.03, tpot_seconds=0.02, lengths=((2000, 10, 1.0),)),
}
EXPECTED = {
    "memory": "memory_binds",
    "latency": "cap_above_latency_ceiling",
    "cap": "cap_binds_pool_idle",
    "quiet": "max_model_len_oversized",
}
SECONDS = 30.0


def configured(folder: Path, deployments: list[dict[str, Any]]) -> Path:
    """Write a configuration that looks often."""
    document = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "storage": {"path": str(folder / "data")},
        "deployments": deployments,
    }
    path = folder / "advisor.yml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def waited_for(
    daemon: DaemonProcess, satisfied: Callable[[dict[str, dict[str, Any]]], bool]
) -> dict[str, dict[str, Any]]:
    """Return the recommendations by deployment once they satisfy, or the last before time is up."""
    deadline = time.monotonic() + SECONDS
    while True:
        answer = json.loads(daemon.get("/api/v1/recommendations"))["recommendations"]
        found = {one["deployment"]: one for one in answer}
        if satisfied(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def codes(recommendation: dict[str, Any] | None) -> set[str]:
    """Return the codes of the advice given."""
    return {advice["code"] for advice in recommendation["advice"]} if recommendation else set()


def test_four_live_situations_are_told_apart(tmp_path: Path) -> None:
    """Four engines at once, a target of 50 ms: memory, latency, the cap itself, and nothing loaded."""
    engines = {
        name: (ScriptedEngine(max_model_len=32768 if name == "quiet" else 8192), situation)
        for name, situation in SITUATIONS.items()
    }
    with live_engines(engines) as urls:
        deployments = [
            {
                "name": name,
                "slo": {"tpot": "50ms", "quantile": "mean"},
                "engine": {"max_num_seqs": 256},
                "advice": {"observed": "2s"},
                "static_configs": [{"targets": [url]}],
            }
            for name, url in urls.items()
        ]
        with daemon_process(
            ["serve", f"--config.file={configured(tmp_path, deployments)}"], tmp_path
        ) as daemon:
            found = waited_for(
                daemon, lambda one: all(code in codes(one.get(name)) for name, code in EXPECTED.items())
            )
            metrics = daemon.metrics()

    for name, code in EXPECTED.items():
        others = set(EXPECTED.values()) - {code}
        assert code in codes(found[name])
        assert not codes(found[name]) & (others - {"max_model_len_oversized"})
    assert found["quiet"]["flags"]["max_num_seqs"]["recommended"] is None
    shares = {
        sample.labels["deployment"]: sample.labels["by"]
        for sample in metrics["bound_time_ratio"].samples
        if sample.value > 0.9
    }
    assert shares == {"memory": "memory", "latency": "latency", "cap": "cap", "quiet": "not_loaded"}


def worked_example(folder: Path, url: str) -> dict[str, Any]:
    """Return the design page's example as a deployment: 10,001 logged requests, and four measured rates."""
    lengths = [1400] * 5001 + [3800] * 4000 + [6200] * 900 + [9500] * 100
    now = time.time()
    with (folder / "access.jsonl").open("w", encoding="utf-8") as log:
        for length in lengths:
            log.write(
                json.dumps({"ts": now - 3600, "prompt": length - 200, "output": 200, "status": 200}) + "\n"
            )
    rates = {8: 62, 24: 41, 40: 26, 48: 19}
    rows = "".join(f"{concurrency},{rate}\n" for concurrency, rate in rates.items())
    (folder / "sweep.csv").write_text(f"concurrency,tokens_per_second_per_user\n{rows}", encoding="utf-8")
    return {
        "name": "chat",
        "slo": {"tpot": "40ms", "quantile": "mean"},
        "engine": {
            "max_num_seqs": 256,
            "model_config": saved(folder, LLAMA_70B),
            "gpu_memory": "80GB",
            "gpu_memory_utilization": 0.92,
            "weights_memory": "17.5GB",
            "headroom": "8GB",
            "tensor_parallel_size": 4,
        },
        "static_configs": [{"targets": [url]}],
        "access_logs": [{"paths": [str(folder / "access.jsonl")], "format": "json", "fields": LOG_FIELDS}],
        "sweep": str(folder / "sweep.csv"),
    }


def answered(folder: Path, config: Path) -> dict[str, Any]:
    """Return the recommendation and explanation of a daemon that has read the whole log."""

    def is_complete(found: dict[str, dict[str, Any]]) -> bool:
        chat = found.get("chat")
        if chat is None or chat["context"]["requests"] != 10_001:
            return False
        return chat["flags"]["max_num_seqs"]["recommended"] is not None and chat["kv_pool"]["engine_tokens"]

    folder.mkdir()
    with daemon_process(["serve", f"--config.file={config}"], folder) as daemon:
        found = waited_for(daemon, is_complete)
        explained = json.loads(daemon.get("/api/v1/deployments/chat/explain"))
        daemon.stop()
    return {"recommendation": found["chat"], "explain": explained}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what a daemon answers on the worked example, and what it does after a restart."""
    folder = tmp_path_factory.mktemp("example")
    engine = ScriptedEngine(max_model_len=1_048_576, pool_tokens=587_152)
    with live_engines({"chat": (engine, Situation(4, 0, 0.01))}) as urls:
        config = configured(folder, [worked_example(folder, urls["chat"])])
        return [answered(folder / name, config) for name in ("first", "second")]


@pytest.fixture
def example(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the daemon answers at first."""
    return runs[0]


def test_a_restart_keeps_what_was_published_and_since_when(runs: list[dict[str, Any]]) -> None:
    """Both flags stand, and the time of their last change is the first daemon's."""
    first, second = (run["recommendation"]["flags"] for run in runs)

    for flag in ("max_model_len", "max_num_seqs"):
        assert second[flag]["recommended"] == first[flag]["recommended"]
        assert second[flag]["since"] == first[flag]["since"]


def test_the_seed_numbers_through_the_daemon(example: dict[str, Any]) -> None:
    """Binding latency, 40 sequences of 12,288 tokens, with the memory headroom said."""
    recommendation = example["recommendation"]
    far_apart = next(one for one in recommendation["advice"] if one["code"] == "ceilings_far_apart")

    assert recommendation["binding"] == "latency"
    assert recommendation["vllm_args"] == "--max-model-len 12288 --max-num-seqs 40"
    assert recommendation["ceilings"]["memory"]["sequences"] == 47
    assert recommendation["headroom"]["spare_tokens"] == 587_152 - 40 * 12_288
    assert "memory headroom" in far_apart["text"]
    assert "95,632 tokens" in far_apart["text"]


def test_the_seed_numbers_before_any_engine_runs(tmp_path: Path) -> None:
    """Model, GPU, log and sweep are enough: the pool by arithmetic, 40, and the headroom said."""
    example = worked_example(tmp_path, "")
    del example["static_configs"]
    with daemon_process(["serve", f"--config.file={configured(tmp_path, [example])}"], tmp_path) as daemon:
        found = waited_for(
            daemon, lambda one: one.get("chat", {}).get("context", {}).get("requests") == 10_001
        )

    chat = found["chat"]
    told = {advice["code"]: advice["text"] for advice in chat["advice"]}
    assert (chat["binding"], chat["vllm_args"]) == ("latency", "--max-model-len 12288 --max-num-seqs 40")
    assert chat["kv_pool"]["predicted_tokens"] == 587_158
    assert chat["kv_pool"]["error_ratio"] is None
    assert chat["headroom"]["spare_tokens"] == 587_158 - 40 * 12_288
    assert "memory headroom" in told["ceilings_far_apart"]
    assert "the KV pool of 587,158 tokens holds 47 sequences" in told["cap_above_memory_ceiling"]
    assert "of busy time" not in told["cap_above_latency_ceiling"]
    assert chat["occupancy"]["preemptions"] == 0
    assert isinstance(chat["occupancy"]["preemptions"], int)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("usable_bytes_per_gpu", 73.6e9),
        ("weights_bytes_per_gpu", 17.5e9),
        ("headroom_bytes_per_gpu", 8e9),
        ("kv_pool_bytes_per_gpu", 48.1e9),
        ("kv_pool_bytes", 192.4e9),
        ("kv_bytes_per_token", 327_680),
        ("kv_pool_tokens", 587_158),
        ("kv_pool_whole_block_tokens", 587_152),
        ("context_p50_tokens", pytest.approx(1400, rel=0.005)),
        ("context_p90_tokens", pytest.approx(3800, rel=0.005)),
        ("context_p99_tokens", pytest.approx(6200, rel=0.005)),
        ("context_p999_tokens", pytest.approx(9500, rel=0.005)),
        ("max_model_len_tokens", 12_288),
        ("model_max_len_tokens", 1_048_576),
        ("model_max_len_ratio", pytest.approx(85, abs=0.5)),
        ("memory_ceiling_sequences", 47),
        ("slo_tpot_seconds", 0.04),
        ("tpot_at_8_sequences_seconds", pytest.approx(1 / 62)),
        ("tpot_at_24_sequences_seconds", pytest.approx(1 / 41)),
        ("tpot_at_40_sequences_seconds", pytest.approx(1 / 26)),
        ("tpot_at_48_sequences_seconds", pytest.approx(1 / 19)),
        ("latency_ceiling_sequences", 40),
        ("max_num_seqs_sequences", 40),
    ],
)
def test_explain_reproduces_every_row_of_the_design(
    example: dict[str, Any], name: str, expected: object
) -> None:
    """Each row of the worked example stands in the explanation, with how it follows."""
    (step,) = (one for one in example["explain"]["steps"] if one["name"] == name)

    assert step["value"] == expected
    assert step["formula"]


def test_explain_says_what_was_decided_and_on_which_thresholds(example: dict[str, Any]) -> None:
    """Thresholds, stability, the decision and its reason are there beside the steps."""
    explained = example["explain"]

    assert explained["decision"]["binding"] == "latency"
    assert explained["decision"]["because"] == "the latency ceiling is below the memory ceiling"
    assert explained["thresholds"]["oversized_factor"] == 2.0
    assert explained["published"]["max_num_seqs"]["value"] == 40
    assert explained["failed_rules"] == []
