"""The design page's worked example through ``plan``, row by row."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.memory import LLAMA_70B, plan_json, plan_text, saved


@pytest.fixture
def engine(tmp_path: Path) -> list[str]:
    """Return the worked example's engine."""
    return [
        "--model-config", saved(tmp_path, LLAMA_70B), "--parameters", "70e9", "--quantization", "fp8",
        "--tensor-parallel-size", "4", "--gpu-memory", "80GB", "--gpu-memory-utilization", "0.92",
        "--headroom", "8GB", "--context-tokens", "9500", "--margin", "0.25",
    ]  # fmt: skip


@pytest.fixture
def answer(engine: list[str], tmp_path: Path) -> dict[str, Any]:
    """Return the answer with the four measured rates as a sweep."""
    sweep = tmp_path / "sweep.csv"
    levels = [(8, 1 / 62), (24, 1 / 41), (40, 1 / 26), (48, 1 / 19)]
    rows = "\n".join(f"{concurrency},{tpot}" for concurrency, tpot in levels)
    sweep.write_text(f"concurrency,tpot_mean\n{rows}\n")
    return plan_json(*engine, "--sweep", str(sweep), "--slo.tpot", "40ms", "--slo.quantile", "mean")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("max_model_len", 12288),
        ("kv_bytes_per_token", 327680),
        ("kv_pool_bytes_per_gpu", 48_100_000_000),
        ("kv_pool_bytes", 192_400_000_000),
        ("kv_pool_tokens", 587158),
        ("max_concurrency", 47.78),
        ("memory_ceiling", 47),
        ("latency_ceiling", 40),
        ("recommended_max_num_seqs", 40),
        ("binding", "latency"),
        ("engine_tokens", None),
        ("error_ratio", None),
        ("diagnosis", None),
    ],
)
def test_every_figure_is_the_design_pages(answer: dict[str, Any], key: str, expected: object) -> None:
    """Each key holds exactly the figure of the worked example."""
    assert answer[key] == expected


def test_whole_blocks_are_named(answer: dict[str, Any]) -> None:
    """The tokens as an engine counts them stand in the notes."""
    assert any(note.startswith("587,152 tokens in whole blocks of 16") for note in answer["notes"])


def test_memory_alone_is_recommended_without_a_sweep(engine: list[str]) -> None:
    """Without a latency target the memory ceiling is the cap, and the notes say so."""
    answer = plan_json(*engine)

    assert (answer["recommended_max_num_seqs"], answer["binding"], answer["latency_ceiling"]) == (
        47,
        "memory",
        None,
    )
    assert any("No sweep" in note for note in answer["notes"])


def test_the_text_says_where_each_gigabyte_went(engine: list[str]) -> None:
    """Weights, headroom, pool and what the utilization leaves alone add up to the GPU's 80 GB."""
    lines = plan_text(*engine).splitlines()
    start = lines.index("Memory of one GPU") + 1
    shares = [float(line.split(" GB")[0].split()[-1]) for line in lines[start : start + 4]]

    assert shares == [6.4, 17.5, 8.0, 48.1]
    assert sum(shares) == pytest.approx(80.0)


def test_plan_takes_little_cpu(engine: list[str]) -> None:
    """An answer takes under 300 ms of CPU beyond the interpreter's start."""

    def cpu_seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    bare = min(cpu_seconds("-c", "pass") for _ in range(3))
    answered = min(cpu_seconds("-m", "vllm_advisor", "plan", *engine, "--json") for _ in range(3))

    assert answered - bare < 0.3
