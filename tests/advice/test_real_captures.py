"""The advice on captures of a real engine under load."""

from __future__ import annotations

from pathlib import Path

from support.advice_pages import codes, config_file, replayed, text_of
from vllm_advisor.ceilings.bound_time import Bound
from vllm_advisor.ceilings.recommendation import Binding

SLO = {"slo": {"tpot": "75ms", "quantile": "mean"}}


def test_a_cap_of_four_under_load_is_the_cap(data: Path, tmp_path: Path) -> None:
    """16 clients before a cap of 4, the pool 99% empty, tokens at 45 ms."""
    pages = data / "advice" / "cap-binds-seqs4-c16.jsonl.gz"
    recommendation = replayed(config_file(tmp_path, **SLO), [pages])

    assert "cap_binds_pool_idle" in codes(recommendation)
    assert "memory_binds" not in codes(recommendation)
    assert recommendation.max_num_seqs.configured == 4
    assert (recommendation.bound_time.ratio(Bound.CAP) or 0) > 0.8
    assert "cap of 4, which was inferred," in text_of(recommendation, "cap_binds_pool_idle")


def test_a_target_that_nobody_set_does_not_overrule_the_queue(data: Path, tmp_path: Path) -> None:
    """Tokens at 45 ms miss the default of 40 ms, and 12 of 16 clients wait behind a cap of 4."""
    pages = data / "advice" / "cap-binds-seqs4-c16.jsonl.gz"
    recommendation = replayed(config_file(tmp_path, slo={}), [pages])

    assert "cap_binds_pool_idle" in codes(recommendation)
    assert not codes(recommendation) & {"memory_binds", "cap_above_latency_ceiling"}
    assert "Give slo.tpot what users need" in text_of(recommendation, "cap_binds_pool_idle")
    assert "give slo.tpot what users need" in text_of(recommendation, "tpot_slo_missed")


def test_a_tiny_pool_under_load_is_memory(data: Path, tmp_path: Path) -> None:
    """16 clients on a pool of 4,128 tokens: preempted sequences wait with the pool 75% to 100% full."""
    pages = data / "advice" / "memory-binds-pool4128-c16.jsonl.gz"
    recommendation = replayed(config_file(tmp_path, **SLO), [pages])

    assert "memory_binds" in codes(recommendation)
    assert recommendation.binding is Binding.MEMORY
    assert "cap_binds_pool_idle" not in codes(recommendation)
    assert "and 24 were preempted" in text_of(recommendation, "memory_binds")


def test_the_same_load_under_a_cap_with_room_is_neither(test_data: Path, tmp_path: Path) -> None:
    """16 clients below a cap of 64 with a large pool wait for nothing."""
    pages = test_data / "vllm" / "sweep" / "c16.jsonl.gz"
    recommendation = replayed(config_file(tmp_path, engine={"max_num_seqs": 64}, **SLO), [pages])

    assert not codes(recommendation) & {"cap_binds_pool_idle", "memory_binds"}
