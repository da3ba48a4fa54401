"""The memory ceiling of a running engine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.memory import LLAMA_70B, ground_truth, model_of, predicted
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.engine_pool import predict_engine_pool
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.memory import memory_ceiling
from vllm_advisor.config import EngineConfig
from vllm_advisor.evidence.lengths_distribution import BUCKETS, LengthDistribution, buckets_of
from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_page

_ROWS = {row["name"]: row for row in ground_truth()["rows"] if row.get("cache_config_info")}
_PLAIN = EngineFacts(
    max_model_len=8192,
    kv_pool_tokens=65536,
    kv_max_concurrency=8.0,
    num_gpu_blocks=4096,
    block_size_tokens=16,
)


def _facts(name: str) -> EngineFacts:
    return facts_from_page(_ROWS[name]["cache_config_info"], engines_on_page=2 if name.endswith("dp2") else 1)


def _engine(row: dict[str, Any]) -> EngineConfig:
    return EngineConfig.model_validate({
        "tensor_parallel_size": 2 if row["name"].startswith("tp2") else 1,
        "dtype": row.get("model_dtype"),
        "disable_hybrid_kv_cache_manager": "--disable-hybrid-kv-cache-manager" in row["flags"],
    })  # fmt: skip


def _lengths(*tokens: int) -> LengthDistribution:
    return LengthDistribution(np.bincount(buckets_of(np.array(tokens)), minlength=BUCKETS))


@pytest.mark.parametrize("name", _ROWS)
def test_with_a_model_config_every_engine_is_agreed_with(name: str) -> None:
    """From its page and its config alone, each real engine's tokens and concurrency come out.

    Batched tokens and scheduling are not on a page; they are taken so that the concurrency comes out.
    """
    row, facts = _ROWS[name], _facts(name)
    prediction = predict_engine_pool(model_of(row["config"]), _engine(row), facts)
    ceiling = memory_ceiling(
        facts=facts, prediction=prediction, max_model_len=row["max_model_len"], lengths=None
    )

    assert (ceiling.sequences, ceiling.grade) == (math.floor(row["max_concurrency"]), Grade.MEASURED)
    assert ceiling.error_ratio == pytest.approx(0, abs=1e-4)
    assert ceiling.diagnosis is None


@pytest.mark.parametrize(
    ("name", "other", "length"),
    [
        ("gemma3-5to1", "gemma3-5to1-mml4096", 4096),
        ("mistral-swa-mml8192", "mistral-swa-mml32768", 32768),
        ("llama-gqa", "llama-gqa-mml1000", 1000),
        ("llama-gqa", "llama-gqa-mml32768", 32768),
    ],
)
def test_another_length_is_what_an_engine_with_it_says(name: str, other: str, length: int) -> None:
    """The ceiling at a candidate length is the concurrency of a real engine started with that length."""
    row, facts = _ROWS[name], _facts(name)
    prediction = predict_engine_pool(model_of(row["config"]), _engine(row), facts)
    ceiling = memory_ceiling(facts=facts, prediction=prediction, max_model_len=length, lengths=None)

    assert ceiling.sequences == math.floor(_ROWS[other]["max_concurrency"])


def test_a_plain_engine_needs_no_model_config() -> None:
    """Whole blocks of the reported pool give the ceiling at any length."""
    ceiling = memory_ceiling(facts=_PLAIN, prediction=None, max_model_len=10_001, lengths=None)

    assert (ceiling.sequences, ceiling.grade) == (4096 // 626, Grade.MEASURED)


@pytest.mark.parametrize("name", ["gemma3-5to1", "granite4", "mistral-swa-mml8192", "mamba2"])
def test_an_unknown_layout_is_not_carried_to_another_length(name: str) -> None:
    """Without a model config a hybrid engine's pool answers at today's length only, and says why."""
    facts = _facts(name)
    today = memory_ceiling(facts=facts, prediction=None, max_model_len=facts.max_model_len, lengths=None)
    other = memory_ceiling(facts=facts, prediction=None, max_model_len=2048, lengths=None)

    assert (today.sequences, today.grade) == (math.floor(_ROWS[name]["max_concurrency"]), Grade.MEASURED)
    assert (other.sequences, other.grade) == (None, Grade.NONE)
    assert "without the model's config" in (other.reason or "")


def test_pages_before_the_token_line_are_graded_so() -> None:
    """Blocks alone are taken for full attention, as an assumption."""
    facts = replace(_PLAIN, kv_pool_tokens=None, kv_max_concurrency=None)
    ceiling = memory_ceiling(facts=facts, prediction=None, max_model_len=8192, lengths=None)

    assert (ceiling.sequences, ceiling.grade) == (8, Grade.ASSUMED)


def test_a_prediction_alone_is_an_assumption() -> None:
    """With no engine seen the pool is arithmetic, and graded so."""
    prediction = predicted(LLAMA_70B, EngineFlags(), kv_cache_memory_bytes=40 * 10**9)
    ceiling = memory_ceiling(facts=EngineFacts(), prediction=prediction, max_model_len=8192, lengths=None)

    assert (ceiling.sequences, ceiling.grade) == (prediction.sequences(8192), Grade.ASSUMED)
    assert ceiling.engine_tokens is None


@pytest.mark.parametrize(("facts", "length"), [(EngineFacts(), 8192), (_PLAIN, None)])
def test_nothing_known_gives_no_number(facts: EngineFacts, length: int | None) -> None:
    """Without a pool or a length there is no ceiling, and a reason."""
    ceiling = memory_ceiling(facts=facts, prediction=None, max_model_len=length, lengths=None)

    assert (ceiling.sequences, ceiling.grade) == (None, Grade.NONE)
    assert ceiling.reason


def test_a_prediction_that_disagrees_is_explained() -> None:
    """Outside 5% the misreading is named, and the engine's own report stands."""
    flags = EngineFlags(tensor_parallel_size=4)
    prediction = predicted(LLAMA_70B, flags, kv_cache_memory_bytes=10 * 10**9)
    tokens = 2 * (prediction.tokens(8192) or 0)
    facts = EngineFacts(
        max_model_len=8192, kv_pool_tokens=tokens, kv_max_concurrency=tokens / 8192,
        num_gpu_blocks=tokens // 16, block_size_tokens=16,
    )  # fmt: skip
    ceiling = memory_ceiling(facts=facts, prediction=prediction, max_model_len=8192, lengths=None)

    assert ceiling.sequences == tokens // 8192
    assert ceiling.error_ratio == pytest.approx(-0.5)
    assert ceiling.diagnosis is not None
    assert "in 8 bits" in ceiling.diagnosis.text


def test_expected_sequences_follow_the_observed_lengths() -> None:
    """Requests of 240 tokens take 15 blocks, and fit as often as that goes, the placeholder block apart."""
    ceiling = memory_ceiling(
        facts=_PLAIN, prediction=None, max_model_len=8192, lengths=_lengths(*[240] * 100)
    )

    assert ceiling.expected_sequences == (4096 - 1) // 15


def test_lengths_over_the_candidate_are_cut_to_it() -> None:
    """A request longer than the candidate would be refused or cut, so it takes no more than that."""
    long, exact = _lengths(*[100_000] * 10), _lengths(*[8192] * 10)
    ceilings = [
        memory_ceiling(facts=_PLAIN, prediction=None, max_model_len=8192, lengths=lengths)
        for lengths in (long, exact)
    ]

    assert ceilings[0].expected_sequences == ceilings[1].expected_sequences == 7


def test_states_are_a_hard_limit() -> None:
    """Each sequence takes blocks for its state however short it is (three groups of three for Granite)."""
    row, facts = _ROWS["granite4"], _facts("granite4")
    prediction = predict_engine_pool(model_of(row["config"]), EngineConfig(), facts)
    ceiling = memory_ceiling(
        facts=facts, prediction=prediction, max_model_len=8192, lengths=_lengths(*[1] * 10)
    )

    assert ceiling.hard_limit_sequences == (682 - 1) // 9
    assert ceiling.expected_sequences == (682 - 1) // 10
