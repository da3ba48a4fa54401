"""The KV layout against a real engine's own report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.memory import ground_truth, model_of, plan_json, saved
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.kv_layout import kv_layout

_FLAGS = {"--max-model-len": 1, "--kv-cache-memory-bytes": 1, "--tensor-parallel-size": 1, "--dtype": 1,
          "--kv-cache-dtype": 1, "--num-gpu-blocks-override": 1, "--disable-hybrid-kv-cache-manager": 0,
          "--data-parallel-size": 1, "--max-num-seqs": 1, "--max-num-batched-tokens": 1}  # fmt: skip
_TRUTH = ground_truth()
_ROWS = [pytest.param(row, id=row["name"]) for row in _TRUTH["rows"]]


def _arguments(row: dict[str, Any]) -> list[str]:
    """Return a row's own flags, with the defaults of the CPU build that it ran on made explicit."""
    flags, kept = row["flags"], []
    for name, values in _FLAGS.items():
        if name in flags:
            at = flags.index(name)
            kept += flags[at : at + 1 + values]
    kept += ["--vllm-version", "0.32.0", "--block-size", str(_block_size(flags))]
    if row.get("max_num_batched_tokens") and "--max-num-batched-tokens" not in flags:
        kept += ["--max-num-batched-tokens", str(row["max_num_batched_tokens"])]
    if "--kv-cache-memory-bytes" not in flags:
        kept += ["--kv-cache-memory", f"{row['pool_bytes']}B"]
    return [*kept, "--async-scheduling" if "--async-scheduling" in flags else "--no-async-scheduling"]


def _block_size(flags: list[str]) -> str:
    return flags[flags.index("--block-size") + 1] if "--block-size" in flags else "128"


@pytest.mark.parametrize("row", _ROWS)
def test_tokens_and_concurrency_are_the_engines_own(row: dict[str, Any], tmp_path: Path) -> None:
    """With the pool given in bytes, tokens, blocks and concurrency equal the engine's, exactly."""
    answer = plan_json("--model-config", saved(tmp_path, row["config"]), *_arguments(row))

    expected = row["reported_kv_tokens"], row["num_gpu_blocks"], row["bytes_per_block"], row["max_model_len"]
    keys = "kv_pool_tokens", "num_gpu_blocks", "bytes_per_block", "max_model_len"
    assert tuple(answer[key] for key in keys) == expected
    assert answer["max_concurrency"] == round(row["max_concurrency"], 2)


@pytest.mark.parametrize("row", _ROWS)
def test_groups_are_the_engines_own(row: dict[str, Any]) -> None:
    """Layers, pages and blocks a request come out group by group as the engine formed them."""
    flags = row["flags"]
    layout = kv_layout(
        model_of(row["config"]),
        EngineFlags(
            dtype=row.get("model_dtype") or "auto",
            kv_cache_dtype=row["kv_cache_dtype"],
            tensor_parallel_size=_after(flags, "--tensor-parallel-size") or 1,
            block_size_tokens=int(_block_size(flags)),
            max_num_batched_tokens=row.get("max_num_batched_tokens")
            or _after(flags, "--max-num-batched-tokens"),
            async_scheduling="--async-scheduling" in flags,
            hybrid_manager="--disable-hybrid-kv-cache-manager" not in flags,
        ),
    )
    length = row["max_model_len"]
    got = sorted(
        (group.layers, group.page_bytes, group.blocks_per_request(length, layout.in_flight_tokens))
        for group in layout.groups
    )

    assert got == sorted(
        (group["n_layers"], group["page_size_bytes"], group["max_blocks_per_request"])
        for group in row["groups"]
    )


def _after(flags: list[str], name: str) -> int | None:
    return int(flags[flags.index(name) + 1]) if name in flags else None


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["name"]) for row in _TRUTH["refused"] if "estimated" in row["error"]]
)
def test_the_longest_request_is_what_a_refusal_names(row: dict[str, Any], tmp_path: Path) -> None:
    """``--max-model-len auto`` finds the length that a refusing engine says it could have served."""
    flags = row["flags"]
    answer = plan_json(
        "--model-config", saved(tmp_path, {**row["config"], "max_position_embeddings": 10**6}),
        "--kv-cache-memory-bytes", flags[flags.index("--kv-cache-memory-bytes") + 1],
        "--max-model-len", "auto", "--block-size", "128",
    )  # fmt: skip

    assert f"estimated maximum model length is {answer['max_model_len']}." in row["error"]
