"""Four situations with a target of 50 ms, as pages of vLLM 0.32 whose counters move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.advice_pages import (
    ScriptedEngine,
    Situation,
    capture,
    codes,
    config_file,
    replayed,
    text_of,
)
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.recommendation import Binding, Recommendation

MEMORY = Situation(118, 34, 0.985, tpot_seconds=0.046, preemptions_per_second=1.6)
LATENCY = Situation(256, 0, 0.41, tpot_seconds=0.118)
CAP = Situation(256, 60, 0.44, tpot_seconds=0.038)
NOT_LOADED = Situation(6, 0, 0.03, tpot_seconds=0.02, lengths=((2000, 100, 1.0),))


def seen(
    folder: Path, situation: Situation, *, cap: int | None = 256, max_model_len: int = 8192
) -> Recommendation:
    """Return what five minutes in a situation lead to."""
    engine = ScriptedEngine(max_model_len=max_model_len)
    pages = capture(folder / "capture.jsonl", engine, [(situation, 300)])
    flags = {"engine": {"max_num_seqs": cap}} if cap else {}
    return replayed(config_file(folder, **flags), [pages])


def raises_the_cap(recommendation: Recommendation) -> bool:
    """Whether any advice says to raise the cap, or the recommended one is higher."""
    told = any("raise it further" in advice.text for advice in recommendation.advice)
    cap = recommendation.max_num_seqs
    return told or (cap.recommended or 0) > (cap.configured or 256)


@pytest.mark.parametrize("cap", [256, None])
def test_memory_binds_and_nothing_raises_the_cap(tmp_path: Path, cap: int | None) -> None:
    """A full pool with preemptions is memory, and a higher cap would make it worse."""
    recommendation = seen(tmp_path, MEMORY, cap=cap)

    assert "memory_binds" in codes(recommendation)
    assert not codes(recommendation) & {"cap_binds_pool_idle", "cap_above_latency_ceiling", "tpot_slo_missed"}
    assert recommendation.bound_time.ratio(Bound.MEMORY) == 1.0
    assert recommendation.binding is Binding.MEMORY
    assert not raises_the_cap(recommendation)


@pytest.mark.parametrize("cap", [256, None])
def test_latency_binds_and_the_cap_goes_down(tmp_path: Path, cap: int | None) -> None:
    """Tokens at more than twice the target are late, though nothing waits and the pool is half empty."""
    recommendation = seen(tmp_path, LATENCY, cap=cap)

    assert {"cap_above_latency_ceiling", "tpot_slo_missed"} <= codes(recommendation)
    assert not codes(recommendation) & {"cap_binds_pool_idle", "memory_binds"}
    assert recommendation.bound_time.ratio(Bound.LATENCY) == 1.0
    assert "Set --max-num-seqs 108" in text_of(recommendation, "cap_above_latency_ceiling")
    assert recommendation.binding is Binding.LATENCY
    assert recommendation.max_num_seqs.recommended is None
    assert not raises_the_cap(recommendation)


def test_late_tokens_are_told_before_any_request_ends(tmp_path: Path) -> None:
    """Half a minute is shorter than a request of 500 tokens at 118 ms, and says that 108 is the most."""
    engine = ScriptedEngine(max_model_len=8192)
    long_answers = replace(LATENCY, lengths=((1200, 500, 1.0),))
    pages = capture(tmp_path / "capture.jsonl", engine, [(long_answers, 30)])
    recommendation = replayed(
        config_file(tmp_path, slo={"tpot": "50ms", "quantile": 0.99}, engine={"max_num_seqs": 256}), [pages]
    )

    assert {"cap_above_latency_ceiling", "tpot_slo_missed"} <= codes(recommendation)
    assert "Set --max-num-seqs 108" in text_of(recommendation, "cap_above_latency_ceiling")
    assert "mean time per output token was 118 ms" in text_of(recommendation, "tpot_slo_missed")
    assert recommendation.binding is Binding.LATENCY


@pytest.mark.parametrize("cap", [256, None])
def test_the_cap_itself_binds_and_goes_up(tmp_path: Path, cap: int | None) -> None:
    """Requests wait at the cap with the pool half empty and the target met: throughput is unclaimed."""
    recommendation = seen(tmp_path, CAP, cap=cap)

    assert "cap_binds_pool_idle" in codes(recommendation)
    assert not codes(recommendation) & {"memory_binds", "cap_above_latency_ceiling", "tpot_slo_missed"}
    assert recommendation.bound_time.ratio(Bound.CAP) == 1.0
    assert "Set --max-num-seqs 384" in text_of(recommendation, "cap_binds_pool_idle")
    assert recommendation.binding is Binding.NONE


def test_nothing_is_loaded_and_only_the_length_is_wrong(tmp_path: Path) -> None:
    """Six short requests say much of max-model-len and nothing of max-num-seqs."""
    recommendation = seen(tmp_path, NOT_LOADED, max_model_len=32768)

    assert "max_model_len_oversized" in codes(recommendation)
    assert not codes(recommendation) & {
        "memory_binds",
        "cap_binds_pool_idle",
        "cap_above_latency_ceiling",
        "tpot_slo_missed",
    }
    assert recommendation.bound_time.ratio(Bound.NOT_LOADED) == 1.0
    assert recommendation.max_model_len.recommended == 3072
    assert (recommendation.max_num_seqs.recommended, recommendation.max_num_seqs.grade) == (None, Grade.NONE)
    assert recommendation.binding is Binding.NONE
    assert not any("--max-num-seqs " in advice.text for advice in recommendation.advice)
