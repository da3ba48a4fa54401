"""What-if by the design page's worked example: each thing moved alone, every figure by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.worked_example import NOW_SECONDS, worked_example
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.ceilings.what_if import Change, Supposed
from vllm_advisor.pipeline import DeploymentPipeline


def supposed(pipeline: DeploymentPipeline, **change: object) -> Supposed:
    """Return what a change gives."""
    snapshot = pipeline.evidence.snapshot(NOW_SECONDS)
    return pipeline.what_if(Change.model_validate(change), snapshot)


def figures(recommendation: Recommendation) -> tuple[int | None, ...]:
    """Return max-model-len, both ceilings and max-num-seqs."""
    return (
        recommendation.max_model_len.recommended,
        recommendation.memory.sequences,
        recommendation.latency.sequences,
        recommendation.max_num_seqs.recommended,
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, (12288, 47, 40, 40)),
        ({"slo_tpot_ms": 25}, (12288, 47, 24, 24)),  # 24 + 16 x (25 - 24.39) / (38.46 - 24.39)
        ({"slo_tpot_ms": 50}, (12288, 47, 46, 46)),  # 40 + 8 x (50 - 38.46) / (52.63 - 38.46)
        ({"margin": 0}, (10240, 57, 40, 40)),  # 587,158 / 10,240
        ({"margin": 1}, (19456, 30, 40, 30)),  # 587,158 / 19,456
        ({"kv_cache_dtype": "fp8"}, (12288, 95, 40, 40)),  # twice the tokens
        ({"gpus": 8}, (12288, 112, 40, 40)),  # 8 x (73.6 - 8.75 - 8) GB / 327,680 / 12,288
        ({"gpus": 2}, (12288, 15, 40, 15)),  # 2 x (73.6 - 35 - 8) GB / 327,680 / 12,288
    ],
    ids=str,
)
def test_figures_by_hand(tmp_path: Path, change: dict[str, object], expected: tuple[int, ...]) -> None:
    """Each change moves what it should, by the amount that the arithmetic on paper gives."""
    assert figures(supposed(worked_example(tmp_path), **change).recommendation) == expected


def test_latency_is_never_computed(tmp_path: Path) -> None:
    """On other GPUs the latency ceiling stays today's, is graded as assumed, and that is said."""
    outcome = supposed(worked_example(tmp_path), gpus=8)

    assert outcome.recommendation.latency.grade is Grade.ASSUMED
    assert outcome.recommendation.max_num_seqs.grade is Grade.ASSUMED
    assert "measured again" in outcome.notes[0]


def test_unknown_pool_is_not_invented(tmp_path: Path) -> None:
    """Without the GPU's memory the pool on other GPUs is not known, and what is missing is named."""
    outcome = supposed(worked_example(tmp_path, gpu_memory="80GB", weights_memory="70GB"), gpus=4)
    pipeline = worked_example(tmp_path)
    bare = DeploymentPipeline(pipeline.config.model_copy(update={"engine": type(pipeline.config.engine)()}))
    unknown = supposed(bare, gpus=8)

    assert outcome.recommendation.memory.sequences == 0
    assert unknown.recommendation.memory.sequences is None
    assert unknown.recommendation.max_num_seqs.recommended is None
    assert any("engine.model_config" in note for note in unknown.notes)


def test_uneven_gpus_are_said(tmp_path: Path) -> None:
    """Five GPUs do not make two equal pipeline stages."""
    outcome = supposed(worked_example(tmp_path, pipeline_parallel_size=2), gpus=5)

    assert any("5 GPUs do not divide into 2 pipeline stages" in note for note in outcome.notes)
