"""What else takes a GPU's memory, against what engines logged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.memory import LLAMA_70B, model_of, plan_json, saved
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.overheads import activation_peak

_GIB = 2**30


@pytest.mark.parametrize(
    ("version", "vocabulary", "peak_gib"),
    [
        ((0, 11), 128256, 4.76),
        ((0, 11), 151936, 5.56),
        ((0, 11), 201088, 7.38),
        ((0, 19), 128256, 1.89),
        ((0, 19), 151936, 2.21),
    ],
)
def test_the_samplers_peak_follows_the_vocabulary(
    version: tuple[int, ...], vocabulary: int, peak_gib: float
) -> None:
    """1,024 sequences' logits take what H100 engines logged, 39 bytes each before 0.12 and 15 since."""
    document = LLAMA_70B | {"hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 14336,
                            "vocab_size": vocabulary}  # fmt: skip
    peak = activation_peak(
        model_of(document), EngineFlags(version=version, max_num_seqs=1024, max_num_batched_tokens=8192)
    )

    assert peak.expected_bytes / _GIB == pytest.approx(peak_gib, rel=0.04)
    assert peak.low_bytes <= peak_gib * _GIB <= peak.high_bytes


@pytest.mark.parametrize("total_gib", [79.19, 79.25])
def test_the_range_holds_an_a100_too(total_gib: float) -> None:
    """Of this size an H100 profiles 1,024 sequences and an A100 256; without flags both lie in the range."""
    flags = EngineFlags(version=(0, 19), gpu_memory_bytes=int(total_gib * _GIB))
    document = LLAMA_70B | {"hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 14336}
    peak = activation_peak(model_of(document), flags)
    h100, a100 = (
        activation_peak(model_of(document), replace(flags, max_num_seqs=cap, max_num_batched_tokens=batch))
        for cap, batch in ((1024, 8192), (256, 2048))
    )

    assert peak.expected_bytes == h100.expected_bytes
    assert peak.low_bytes <= a100.expected_bytes < peak.expected_bytes


def test_plan_says_which_gpu_it_took(tmp_path: Path) -> None:
    """The note names both defaults where they decide, and is left out where the flags are given."""
    arguments = ["--model-config", saved(tmp_path, LLAMA_70B), "-tp", "4", "--gpu-memory", "80GB"]
    arguments += ["--max-model-len", "8192"]
    assumed = plan_json(*arguments)
    told = plan_json(*arguments, "--max-num-seqs", "256", "--max-num-batched-tokens", "2048")
    small = plan_json(*arguments, "-tp", "8", "--gpu-memory", "48GB")

    assert any("an A100's are 256 and 2048" in note for note in assumed["notes"])
    assert not any("A100" in note for note in (*told["notes"], *small["notes"]))
