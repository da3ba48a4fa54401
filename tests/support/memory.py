"""Rows of real engines, and ``plan`` run on them."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.pool import PoolInputs, PoolPrediction, predict_pool
from vllm_advisor.cli import main
from vllm_advisor.sources.model_config import ModelConfig, model_config_from_document

DATA = Path(__file__).parent.parent / "data" / "memory"

LLAMA_70B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 1048576,
    "torch_dtype": "bfloat16",
}
"""A 70B grouped-query model, as in the worked example."""


def ground_truth() -> dict[str, Any]:
    """Return what one engine version said of itself, and what it refused."""
    return json.loads((DATA / "kv_ground_truth.json").read_text())


def gpu_rows() -> list[dict[str, Any]]:
    """Return real starts on GPUs."""
    return json.loads((DATA / "kv_pool_gpu.json").read_text())


def model_of(document: dict[str, Any]) -> ModelConfig:
    """Read a config that is already in memory."""
    return model_config_from_document(document, Path("config.json"))


def predicted(document: dict[str, Any], flags: EngineFlags, **inputs: Any) -> PoolPrediction:
    """Predict the pool of a config's model."""
    return predict_pool(model_of(document), flags, PoolInputs(**inputs))


def plan_text(*arguments: str, status: int = 0) -> str:
    """Return what ``plan`` prints; it must end with a status, and one line on stderr unless that is 0."""
    printed, problems = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(problems):
        assert main(["plan", *arguments]) == status
    assert len(problems.getvalue().splitlines()) == (1 if status else 0)
    return printed.getvalue()


def plan_json(*arguments: str, status: int = 0) -> dict[str, Any]:
    """Return ``plan``'s answer."""
    return json.loads(plan_text(*arguments, "--json", status=status))


def saved(folder: Path, document: dict[str, Any]) -> str:
    """Write a model config into a folder and return its path."""
    path = folder / "config.json"
    path.write_text(json.dumps(document))
    return str(path)


def gpu_arguments(row: dict[str, Any]) -> Iterator[str]:
    """Yield a GPU row's flags by vLLM's names."""
    version = row.get("vllm_version") or row.get("vllm_version_hint")
    named = {
        "--dtype": row.get("dtype"),
        "--kv-cache-dtype": row.get("kv_cache_dtype"),
        "--tensor-parallel-size": row["tp"],
        "--pipeline-parallel-size": row["pp"],
        "--data-parallel-size": row["dp"],
        "--max-model-len": row["max_model_len"],
        "--max-num-seqs": row.get("max_num_seqs"),
        "--max-num-batched-tokens": row.get("max_num_batched_tokens"),
        "--block-size": row.get("block_size"),
        "--vllm-version": re.search(r"\d+\.\d+(\.\d+)?", version)[0] if version else None,
        "--gpu-memory-utilization": row.get("gpu_memory_utilization"),
    }
    for name, value in named.items():
        if value is not None:
            yield from (name, str(value))
