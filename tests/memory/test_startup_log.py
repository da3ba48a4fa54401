"""Startup logs: captured ones, every older wording, and what wraps them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from support.memory import DATA
from vllm_advisor.errors import InputError
from vllm_advisor.sources.engine_facts import CapSource
from vllm_advisor.sources.startup_log import (
    StartupReport,
    facts_from_startup,
    read_startup_log,
    startup_report,
)

_GIB = 2**30
_LOGS = DATA / "logs"


_OLD_REFUSAL = (
    "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in "
    "KV cache (29648). Try increasing `gpu_memory_utilization`"
)
_REFUSAL = (
    "ValueError: To serve at least one request with the models's max seq len (40960), (5.63 GiB KV cache "
    "is needed, which is larger than the available KV cache memory (3.33 GiB). Based on the available "
    "memory, the estimated maximum model length is 24272."
)
_MIDDLE_BREAKDOWN = (
    "Free memory on device (78.66/79.19 GiB) on startup. Desired GPU memory utilization is "
    "(0.95, 75.23 GiB). Actual usage is 14.99 GiB for weight, 1.89 GiB for peak activation, "
    "0.25 GiB for non-torch memory, and 0.91 GiB for CUDAGraph memory."
)
_NEW_BREAKDOWN = (
    "Free memory on device (94.2/95.01 GiB) on startup. Desired GPU memory utilization is (0.9, 85.51 GiB). "
    "Actual usage is 56.89 GiB for consumed memory (weights + non-torch), 0.76 GiB for peak activation"
)
_V0_BREAKDOWN = (
    "model weights take 2.89GiB; non_torch_memory takes 0.01GiB; PyTorch activation peak memory takes "
    "2.02GiB; the rest of the memory reserved for KV Cache is 2.36GiB."
)


@pytest.mark.parametrize(
    ("name", "tokens", "length", "concurrency"),
    [
        ("granite4", 180224, 8192, 22.00),
        ("gemma3-26L", 70197, 32768, 2.14),
        ("llama-gqa-auto-len-tight", 16384, 16256, 1.01),
        ("llama-gqa-override-blocks", 12800, 4096, 3.12),
        ("mid-llama-sweep", 174752, 2048, 85.33),
        ("tiny-llama-dp2", 65536, 1024, 64.00),
    ],
)
def test_captured_logs(name: str, tokens: int, length: int, concurrency: float) -> None:
    """Tokens, length and concurrency are those of the engine's own line."""
    report = read_startup_log(_LOGS / f"startup-{name}.log")

    assert (report.kv_tokens, report.max_model_len, report.max_concurrency) == (tokens, length, concurrency)


def test_a_captured_refusal() -> None:
    """A refused start gives what was needed, what was there and the longest length."""
    report = read_startup_log(_LOGS / "startup-error-pool-too-small.log")

    assert report.refused
    assert (report.max_model_len, report.longest_tokens) == (131072, 32640)
    assert (report.needed_bytes, report.available_bytes) == (_GIB // 4, round(0.06 * _GIB))


def test_flags_are_read_from_the_log() -> None:
    """The cap and the version come from the log and say where they were learnt."""
    facts = facts_from_startup(read_startup_log(_LOGS / "startup-mid-llama-sweep.log"))

    assert (facts.max_num_seqs, facts.max_num_seqs_source) == (64, CapSource.STARTUP_LOG)
    assert (facts.vllm_version, facts.cache_dtype, facts.kv_pool_tokens) == ("0.32.0", "auto", 174752)


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("INFO GPU KV cache size: 616,000 tokens", "kv_tokens", 616000),
        ("INFO TPU KV cache size: 1,024 tokens", "kv_tokens", 1024),
        ("Maximum concurrency for 32,768 tokens per request: 18.80x", "max_concurrency", 18.8),
        ("# GPU blocks: 5691, # CPU blocks: 2048", "num_gpu_blocks", 5691),
        ("# cuda blocks: 5519, # CPU blocks: 9362", "num_gpu_blocks", 5519),
        ("# CUDA blocks: 27, # CPU blocks: 1", "num_gpu_blocks", 27),
        ("Available KV cache memory: 58.11 GiB", "available_bytes", round(58.11 * _GIB)),
        ("Available KV cache memory: -2.14 GiB", "available_bytes", round(-2.14 * _GIB)),
        ("Available memory: 40178937036, total memory: 65464696832", "available_bytes", 40178937036),
        ("Model loading took 14.99 GiB memory and 3.1 seconds", "weights_bytes", round(14.99 * _GIB)),
        ("Model loading took 14.2459 GB and 2.5 seconds", "weights_bytes", round(14.2459 * _GIB)),
        ("Loading model weights took 22.5313 GiB", "weights_bytes", round(22.5313 * _GIB)),
        ("Auto-fit max_model_len: reduced from 131072 to 16256 to fit", "max_model_len", 16256),
        ("vLLM API server version 0.9.1", "version", "0.9.1"),
        ("Initializing an LLM engine (v0.6.3) with config: model='m'", "version", "0.6.3"),
        (_OLD_REFUSAL, "longest_tokens", 29648),
        (_REFUSAL, "needed_bytes", round(5.63 * _GIB)),
        (_REFUSAL, "longest_tokens", 24272),
        (_V0_BREAKDOWN, "weights_bytes", round(2.89 * _GIB)),
        (_V0_BREAKDOWN, "non_torch_bytes", round(0.01 * _GIB)),
        (_V0_BREAKDOWN, "activation_bytes", round(2.02 * _GIB)),
        (_V0_BREAKDOWN, "available_bytes", round(2.36 * _GIB)),
    ],
)
def test_every_wording(line: str, field: str, expected: object) -> None:
    """Each version's line gives its figure."""
    assert getattr(startup_report([line]), field) == expected


def test_the_breakdown_of_middle_versions() -> None:
    """Weights, activation, non-torch memory, graphs and the GPU's size stand on one line."""
    report = startup_report([_MIDDLE_BREAKDOWN])
    sizes = report.weights_bytes, report.activation_bytes, report.non_torch_bytes, report.graphs_bytes

    assert [round((size or 0) / _GIB, 2) for size in sizes] == [14.99, 1.89, 0.25, 0.91]
    assert (report.gpu_memory_bytes, report.utilization_ratio) == (round(79.19 * _GIB), 0.95)


def test_weights_and_non_torch_as_one_figure() -> None:
    """From 0.28 the consumed memory is one figure, and the weights' own line tells them apart."""
    report = startup_report(["Model loading took 55.19 GiB memory and 70.0 seconds", _NEW_BREAKDOWN])

    assert round((report.non_torch_bytes or 0) / _GIB, 2) == 1.70


def test_the_budget_of_v0() -> None:
    """V0 prints the GPU's memory and the utilization."""
    line = "can use total_gpu_memory (14.56GiB) x gpu_memory_utilization (0.50) = 7.28GiB"
    report = startup_report([f"the current vLLM instance {line}"])

    assert (report.gpu_memory_bytes, report.utilization_ratio) == (round(14.56 * _GIB), 0.5)


def test_the_smallest_rank_rules() -> None:
    """Where every rank prints a token line, the smallest is the pool's."""
    lines = [
        f"(Worker_TP{rank}) GPU KV cache size: {tokens} tokens" for rank, tokens in enumerate((257, 256, 300))
    ]

    assert startup_report(lines).kv_tokens == 256


def test_the_last_start_counts() -> None:
    """A log with two starts gives the second one, with nothing of the first."""
    first = "non-default args: {'max_num_seqs': 8}", "GPU KV cache size: 100 tokens"
    second = "non-default args: {'max_model_len': 4096}", "GPU KV cache size: 200 tokens"
    report = startup_report([*first, *second])

    assert (report.kv_tokens, dict(report.arguments)) == (200, {"max_model_len": 4096})


def _kubernetes(line: str) -> str:
    half = len(line) // 2
    stamp = "2026-12-01T14:08:54.123456789Z stdout"
    return f"{stamp} P {line[:half]}\n{stamp} F {line[half:]}\n"


@pytest.mark.parametrize(
    "wrap",
    [
        _kubernetes,
        lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026"}) + "\n",
        lambda line: f"\x1b[36m(EngineCore pid=1)\x1b[0;0m {line}\r\n",
        lambda line: f"vllm-0  | {line}\n",
    ],
    ids=["kubernetes", "docker", "colours", "compose"],
)
def test_what_a_container_puts_around_lines(wrap: object, tmp_path: Path) -> None:
    """Wrapped lines, parts of lines too, give the same report."""
    assert callable(wrap)
    plain = (_LOGS / "startup-granite4.log").read_text().splitlines()
    wrapped = tmp_path / "engine.log"
    wrapped.write_text("".join(wrap(line) for line in plain))

    assert read_startup_log(wrapped) == startup_report(plain)


def test_rotated_logs_are_read_from_the_oldest(tmp_path: Path) -> None:
    """In a folder the newest file has the last word, and what was compressed is read too."""
    with gzip.open(tmp_path / "vllm.log.1.gz", "wt") as old:
        old.write("non-default args: {'max_num_seqs': 8}\nGPU KV cache size: 100 tokens\n")
    (tmp_path / "vllm.log").write_text("GPU KV cache size: 50 tokens\n")
    os.utime(tmp_path / "vllm.log.1.gz", (1, 1))
    report = read_startup_log(tmp_path)

    assert (report.kv_tokens, report.arguments["max_num_seqs"]) == (50, 8)


def test_a_log_without_a_start_is_empty() -> None:
    """Lines of other things give an empty report, and nothing is made up."""
    assert startup_report(["INFO: hello", "memory of elephants", ""]) == StartupReport()
    assert startup_report([]).is_empty


@pytest.mark.parametrize("name", ["missing.log", "cut.gz", "plain.gz"])
def test_logs_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    """One line names the file."""
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"GPU KV cache size: 1 tokens\n" * 1000)[:40])
    (tmp_path / "plain.gz").write_bytes(b"no gzip")

    with pytest.raises(InputError, match=name):
        read_startup_log(tmp_path / name)


def test_an_empty_folder_is_said_to_be_one(tmp_path: Path) -> None:
    """A folder without logs is a problem, not an empty answer."""
    with pytest.raises(InputError, match="holds no log file"):
        read_startup_log(tmp_path)
