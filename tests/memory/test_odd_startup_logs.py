"""Startup logs with figures that no engine has: they are passed over, and ``plan`` goes on."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory import LLAMA_70B, saved
from vllm_advisor import cli
from vllm_advisor.ceilings.engine_version import LATEST, release_of
from vllm_advisor.sources.startup_log import startup_report

_LINES = (
    "GPU KV cache size: {} tokens",
    "Maximum concurrency for {} tokens per request: {}x",
    "Available KV cache memory: {} GiB",
    "Available memory: {}, total memory: {}",
    "# GPU blocks: {}, # CPU blocks: 0",
    "Model loading took {} GiB",
    "non-default args: {{'max_model_len': {}, 'tensor_parallel_size': {}, 'pipeline_parallel_size': {}}}",
    "non-default args: {{'max_num_seqs': {}, 'speculative_config': {{'num_speculative_tokens': {}}}}}",
    "Initializing a V1 LLM engine (v{}) with config: dtype=torch.{}, max_seq_len={}, tensor_parallel_size={}",
    "vLLM API server version {}",
    "max seq len ({}), ({} GiB KV cache is needed, which is larger than the KV cache memory ({} GiB)",
    "Based on the available memory, the estimated maximum model length is {}.",
    "max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache ({})",
    "total_gpu_memory ({}GiB) x gpu_memory_utilization ({}) = 1GiB",
    "{} GiB for weight, {} GiB for peak activation, {} GiB for non-torch memory",
)
_FIGURES = st.sampled_from([
    "0", "1", "-1", "16", "4096", "131072", "9" * 20, "9" * 400, "0.0", "512.5", "1e5", "nan", "x",
    "8,192", "",
])  # fmt: skip


@st.composite
def _odd_lines(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.sampled_from(_LINES), min_size=1, max_size=5))
    return "".join(line.format(*(draw(_FIGURES) for _ in range(line.count("{}")))) + "\n" for line in lines)


@settings(max_examples=150, deadline=None)
@given(_odd_lines(), st.sampled_from([(), ("--json",), ("--gpu-memory", "80GB")]))
def test_no_figure_of_a_log_ends_in_a_traceback(lines: str, flags: tuple[str, ...]) -> None:
    """Whatever stands where a figure does, ``plan`` answers or says one line."""
    printed, problems = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(problems),
    ):
        log = Path(folder) / "vllm.log"
        log.write_text(lines)
        config = saved(Path(folder), json.loads(json.dumps(LLAMA_70B)))
        code = cli.main(["plan", "--model-config", config, "--startup-log", str(log), *flags])

    assert code in {0, 1, 2}
    assert len(problems.getvalue().splitlines()) == (1 if code else 0)


@pytest.mark.parametrize(
    "line",
    [
        f"GPU KV cache size: {'9' * 30} tokens",
        f"Available KV cache memory: {'9' * 30} GiB",
        "non-default args: {'tensor_parallel_size': 0, 'max_num_seqs': -3, 'block_size': 'x'}",
        "Initializing a V1 LLM engine (vx) with config: dtype=torch.bfloat16",
        "vLLM API server version 3",
    ],
)
def test_a_figure_that_no_engine_has_is_passed_over(line: str) -> None:
    """The line tells nothing."""
    assert startup_report([line]).is_empty


def test_more_than_the_whole_gpu_is_no_utilization() -> None:
    """The GPU's size stands, the ratio does not."""
    report = startup_report(["total_gpu_memory (79.19GiB) x gpu_memory_utilization (95) = 75.23GiB"])

    assert (report.gpu_memory_bytes, report.utilization_ratio) == (round(79.19 * 2**30), None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.19.0", (0, 19, 0)),
        ("v0.23.1rc1.dev531", (0, 23, 1)),
        ("0.1.dev9999+gabc1234", LATEST),
        (None, LATEST),
        ("main", LATEST),
    ],
)
def test_an_untagged_build_is_taken_for_the_latest(text: str | None, version: tuple[int, ...]) -> None:
    """Builds without tags call themselves 0.1.dev, and are none of the first releases."""
    assert release_of(text) == version
