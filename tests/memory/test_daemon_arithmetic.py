"""What the daemon works a pool out from: its configuration, a startup log, and a running engine's page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.advice_pages import ScriptedEngine, Situation, capture, config_file, replayed
from support.memory import DATA, LLAMA_70B, ground_truth, saved
from vllm_advisor.arithmetic import load_arithmetic
from vllm_advisor.config import EngineConfig, load_config
from vllm_advisor.errors import InputError
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.web.explain import steps
from vllm_advisor.web.recommendation_json import recommendation_json

_ROWS = {row["name"]: row for row in json.loads((DATA / "published_models.json").read_text())}
_POOL = {"kv_cache_memory": "40GiB", "max_num_batched_tokens": 8192}


def _bytes_per_block(folder: Path, row: str, **engine: Any) -> int:
    config = saved(folder, _ROWS[row]["config"])
    arithmetic = load_arithmetic(EngineConfig.model_validate({"model_config": config, **_POOL, **engine}))
    prediction = arithmetic.predict(EngineFacts())
    assert prediction is not None
    return prediction.layout.bytes_per_block


@pytest.mark.parametrize(
    ("row", "engine"),
    [
        (
            "glm-4.5-tp8-mtp",
            {
                "tensor_parallel_size": 8,
                "speculative_config": {"method": "mtp", "num_speculative_tokens": 1, "model": "x"},
            },
        ),
        (
            "qwen3-next-mtp2",
            {
                "tensor_parallel_size": 4,
                "speculative_config": '{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}',
            },
        ),
        ("ngram", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}),
        ("granite4-tp2-ssm-fp16", {"tensor_parallel_size": 2, "mamba_ssm_cache_dtype": "float16"}),
    ],
)
def test_the_daemon_can_be_told_what_plan_can(row: str, engine: dict[str, Any], tmp_path: Path) -> None:
    """The keys are vLLM's flags and lead to the blocks that the formulas give."""
    assert _bytes_per_block(tmp_path, row, **engine) == _ROWS[row]["expected"]["bytes_per_block"]


def test_context_parallel_ranks_and_graphs_are_configured(tmp_path: Path) -> None:
    """Eight ranks share each sequence's tokens, and an eager engine sets no graphs aside."""
    row = _ROWS["dcp8-deepseek"]
    engine = {
        "model_config": saved(tmp_path, row["config"]), "tensor_parallel_size": 8, **_POOL,
        "decode_context_parallel_size": 8, "max_model_len": 163840,
    }  # fmt: skip
    prediction = load_arithmetic(EngineConfig.model_validate(engine)).predict(EngineFacts())
    assert prediction is not None
    assert prediction.tokens(163840) == row["expected"]["kv_pool_tokens"]

    sized = {**engine, "gpu_memory": "141GB", "enforce_eager": True}
    del sized["kv_cache_memory"]
    eager = load_arithmetic(EngineConfig.model_validate(sized)).predict(EngineFacts())
    assert eager is not None
    assert {share.name: share.size.expected_bytes for share in eager.shares}["CUDA graphs"] == 0


def test_a_speculative_config_that_is_no_mapping_is_named(tmp_path: Path) -> None:
    """One line names the key."""
    path = config_file(tmp_path, engine={"speculative_config": "mtp"})

    with pytest.raises(InputError, match=r"engine\.speculative_config: expected a mapping, or a JSON object"):
        load_config(path)


def test_what_is_not_configured_is_taken_from_the_startup_log(tmp_path: Path) -> None:
    """Ranks, drafter and dtypes come from the log; what the configuration says wins over it."""
    log = tmp_path / "vllm.log"
    log.write_text(
        "INFO 12-01 10:00:00 [utils.py:233] non-default args: {'model': 'glm', 'tensor_parallel_size': 8, "
        "'pipeline_parallel_size': 0, 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1}}\n"
    )
    logged = {"startup_log": str(log)}

    assert (
        _bytes_per_block(tmp_path, "glm-4.5-tp8-mtp", **logged)
        == _ROWS["glm-4.5-tp8-mtp"]["expected"]["bytes_per_block"]
    )
    told = _bytes_per_block(tmp_path, "glm-4.5-tp8-mtp", **logged, tensor_parallel_size=4)
    assert told == 2 * _ROWS["glm-4.5-tp8-mtp"]["expected"]["bytes_per_block"]


def test_a_hard_limit_stands_in_the_answer_with_its_reason(tmp_path: Path) -> None:
    """States of 9 blocks a sequence in 682 blocks, and two pipeline stages that take turns."""
    row = next(row for row in ground_truth()["rows"] if row["name"] == "granite4")
    labels = {key: value for key, value in row["cache_config_info"].items() if key != "engine"}
    engine = ScriptedEngine(max_model_len=8192, labels=labels)
    recorded = capture(tmp_path / "capture.jsonl", engine, [(Situation(running=4), 60)])
    told = {"model_config": saved(tmp_path, row["config"]), "pipeline_parallel_size": 2, "max_num_seqs": 64}
    recommendation = replayed(config_file(tmp_path, engine=told), [recorded])
    memory = recommendation_json(recommendation)["ceilings"]["memory"]
    explained = {step.name: step for step in steps(recommendation)}

    assert memory["hard_limit_sequences"] == (682 - 1) // 9
    assert memory["micro_batches"] == 2
    assert memory["hard_limit_reason"].startswith("(682 blocks - 1) / 9 blocks")
    assert explained["hard_limit_sequences"].value == (682 - 1) // 9
    assert explained["hard_limit_sequences"].formula == memory["hard_limit_reason"]


def test_a_model_without_states_has_no_hard_limit(tmp_path: Path) -> None:
    """Full attention alone ends at the pool, on one stage."""
    engine = ScriptedEngine(max_model_len=8192)
    recorded = capture(tmp_path / "capture.jsonl", engine, [(Situation(running=4), 60)])
    told = {"model_config": saved(tmp_path, LLAMA_70B)}
    recommendation = replayed(config_file(tmp_path, engine=told), [recorded])
    memory = recommendation_json(recommendation)["ceilings"]["memory"]

    limits = "hard_limit_sequences", "hard_limit_reason", "micro_batches"
    assert {memory[key] for key in limits} == {None}
