"""The pool against real GPU starts: tokens from given bytes, and bytes from GPU memory and flags alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.memory import DATA, gpu_arguments, gpu_rows, plan_json, saved

_FIRST_STAGE = "the GiB line is the first pipeline stage's, and the last stage's pool is smaller"
_EXPLAINED = {
    "llmd-meta-llama-llama-3-1-8b---tp1pp2dp1--8192": _FIRST_STAGE,
    "llmd-meta-llama-llama-3-1-8b---tp1pp4dp1--8192": _FIRST_STAGE,
    "f-smollm-cpu": "0.12 GiB is printed to two decimals, which is 4% of it",
}
"""Rows whose two figures do not belong together, with the cause."""
_ROWS = gpu_rows()
_STATED = [row for row in _ROWS if row["reported"]["kv_tokens"] and row["reported"]["available_kv_gib"]]
_SHAPES = json.loads((DATA / "published_shapes.json").read_text())
_QUANTIZATIONS = {"compressed-tensors w8a8": "w8a8", "compressed-tensors fp8-dynamic": "fp8"}


def _tokens_from_bytes(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    pool_bytes = round(row["reported"]["available_kv_gib"] * 2**30)
    config = saved(folder, row["config"])
    return plan_json("--model-config", config, "--kv-cache-memory", f"{pool_bytes}B", *gpu_arguments(row))


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["id"]) for row in _STATED if row["id"] not in _EXPLAINED]
)
def test_tokens_follow_from_the_bytes_the_engine_found(row: dict[str, Any], tmp_path: Path) -> None:
    """The tokens of a pool given in bytes are the engine's to 0.5%, the two decimals of its GiB line."""
    answer = _tokens_from_bytes(row, tmp_path)

    assert answer["kv_pool_tokens"] == pytest.approx(row["reported"]["kv_tokens"], rel=0.005)
    if row["reported"]["max_concurrency"]:
        assert answer["max_concurrency"] == pytest.approx(row["reported"]["max_concurrency"], rel=0.005)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["id"]) for row in _STATED if row["id"] in _EXPLAINED]
)
def test_explained_rows_are_off_by_what_explains_them(row: dict[str, Any], tmp_path: Path) -> None:
    """A row whose figures do not belong together differs by no more than its cause allows."""
    assert _tokens_from_bytes(row, tmp_path)["kv_pool_tokens"] == pytest.approx(
        row["reported"]["kv_tokens"], rel=0.04
    )


def test_nearly_all_rows_agree() -> None:
    """At least 95% of the rows that state both figures agree; the rest is explained above."""
    assert len(_EXPLAINED) <= 0.05 * len(_STATED)


def _predicted(row: dict[str, Any], folder: Path, *, completed: bool = True) -> dict[str, Any]:
    config = dict(row["config"])
    shape = dict(_SHAPES[row["model"]]) if completed else {}
    tower = shape.pop("vision_config", None)
    if "text_config" in config:
        config["text_config"] = config["text_config"] | shape
    else:
        config |= shape
    if tower:
        config["vision_config"] = tower
    arguments = [*gpu_arguments(row), "--gpu-memory", f"{row['reported']['total_gpu_gib']}GiB"]
    if quantization := _QUANTIZATIONS.get(row.get("quantization") or "", row.get("quantization")):
        arguments += ["--quantization", quantization]
    return plan_json("--model-config", saved(folder, config), *arguments)


def _is_plain(answer: dict[str, Any]) -> bool:
    return not any("concurrency in token units" in note for note in answer["notes"])


@pytest.mark.parametrize("completed", [True, False], ids=["whole configs", "cut-down configs"])
def test_pools_from_gpu_memory_and_flags_alone(completed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """With weights and overheads predicted, 80% of the pools are within 5% and plain models within 15%."""
    rows = [
        row for row in _ROWS if row["reported"].get("total_gpu_gib") and row["reported"]["available_kv_gib"]
    ]
    answers = [_predicted(row, tmp_path, completed=completed) for row in rows]
    errors = [
        abs(answer["kv_pool_bytes_per_gpu"] / 2**30 / row["reported"]["available_kv_gib"] - 1)
        for row, answer in zip(rows, answers, strict=True)
    ]
    plain = [error for error, answer in zip(errors, answers, strict=True) if _is_plain(answer)]

    assert len(rows) > 50
    assert sum(error <= 0.05 for error in errors) >= 0.8 * len(rows)
    assert max(plain) <= 0.15


def test_nine_of_ten_pools_lie_in_the_predicted_range(tmp_path: Path) -> None:
    """The range given with a predicted pool holds what the engine found, 0.02 GiB of rounding apart."""
    rows = [
        row for row in _ROWS if row["reported"].get("total_gpu_gib") and row["reported"]["available_kv_gib"]
    ]
    inside = 0
    for row in rows:
        low, high = _predicted(row, tmp_path)["kv_pool_bytes_per_gpu_range"]
        found = row["reported"]["available_kv_gib"] * 2**30
        inside += low - 2e7 <= found <= high + 2e7

    assert inside >= 0.9 * len(rows)
