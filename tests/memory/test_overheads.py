"""What else takes a GPU's memory, against what engines logged."""

from __future__ import annotations

import pytest

from support.memory import LLAMA_70B, model_of
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
