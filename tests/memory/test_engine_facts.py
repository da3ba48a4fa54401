"""What an engine says of itself, from every door."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory import ground_truth
from vllm_advisor.config import EngineConfig
from vllm_advisor.sources.engine_facts import (
    CapSource,
    EngineFacts,
    facts_from_config,
    facts_from_doors,
    facts_from_page,
    facts_from_server_info,
    merge_facts,
)

_PAGES = [row for row in ground_truth()["rows"] if row.get("cache_config_info")]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in _PAGES])
def test_labels_of_real_pages(row: dict[str, Any]) -> None:
    """Tokens, concurrency, one engine's blocks and the unstated max-model-len follow from the labels."""
    engines = 2 if row["name"].endswith("dp2") else 1
    facts = facts_from_page(row["cache_config_info"], engines_on_page=engines)

    assert facts.kv_pool_tokens == row["reported_kv_tokens"]
    assert facts.kv_max_concurrency == row["max_concurrency"]
    assert facts.num_gpu_blocks == row["num_gpu_blocks"]
    assert facts.max_model_len == row["max_model_len"]


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(1, 10**5))
def test_max_model_len_is_found_again(length: int, blocks: int, need: int) -> None:
    """The length comes out of tokens and concurrency as the engine makes them, whatever they are."""
    concurrency = max(blocks / need, 1.0)
    labels = {
        "kv_cache_size_tokens": str(int(concurrency * length)),
        "kv_cache_max_concurrency": str(concurrency),
    }

    assert facts_from_page(labels).max_model_len == length


def test_labels_of_older_pages() -> None:
    """Blocks and block size are there, the token line is not; ``None`` is absent."""
    labels = {"block_size": "16", "num_gpu_blocks": "None", "cache_dtype": "auto", "sliding_window": "None"}

    assert facts_from_page(labels) == EngineFacts(block_size_tokens=16, cache_dtype="auto")


_LABELS = st.sampled_from(
    ["num_gpu_blocks", "kv_cache_size_tokens", "block_size", "kv_cache_max_concurrency", "cache_dtype"]
)
_TEXTS = st.sampled_from(["", "None", "nan", "-1", "inf", "1e9", "x", "0", "12.5", "[]"])


@given(st.dictionaries(_LABELS, _TEXTS))
def test_odd_labels_never_raise(labels: dict[str, str]) -> None:
    """Whatever a label holds, facts are positive numbers or absent."""
    facts = facts_from_page(labels)
    numbers = facts.kv_pool_tokens, facts.kv_max_concurrency, facts.num_gpu_blocks, facts.max_model_len

    assert all(number is None or (number >= 0 and math.isfinite(number)) for number in numbers)


def test_doors() -> None:
    """``/v1/models`` gives the length of the first card that states one, ``/version`` the version."""
    models = {
        "object": "list",
        "data": [{"id": "lora", "max_model_len": None}, {"id": "m", "max_model_len": 2048}],
    }
    facts = facts_from_doors(models=models, version={"version": "0.32.0"})

    assert (facts.max_model_len, facts.vllm_version) == (2048, "0.32.0")


@pytest.mark.parametrize(
    "models", [{}, {"data": None}, {"data": ["x", {"max_model_len": "y"}]}, {"data": {}}]
)
def test_odd_doors(models: dict[str, Any]) -> None:
    """Another shape of answer says nothing and raises nothing."""
    assert facts_from_doors(models=models, version={"version": 3}) == EngineFacts()


def test_server_info() -> None:
    """A server in development mode tells the cap."""
    answer = {
        "vllm_config": {
            "model_config": {"max_model_len": 2048},
            "scheduler_config": {"max_num_seqs": 64},
            "cache_config": {"num_gpu_blocks": 8192, "kv_cache_size_tokens": 1048576,
                             "kv_cache_max_concurrency": 512.0, "block_size": 128},
        }
    }  # fmt: skip
    facts = facts_from_server_info(answer)

    assert (facts.max_num_seqs, facts.max_num_seqs_source) == (64, CapSource.SERVER_INFO)
    assert (facts.max_model_len, facts.kv_pool_tokens) == (2048, 1048576)
    assert facts_from_server_info({"vllm_config": "a string"}) == EngineFacts()


def test_read_values_win() -> None:
    """The earlier source wins, field by field, and a cap keeps where it was learnt."""
    read = EngineFacts(max_model_len=4096)
    configured = facts_from_config(EngineConfig(max_model_len=8192, max_num_seqs=32))
    merged = merge_facts(read, configured)

    assert (merged.max_model_len, merged.max_num_seqs) == (4096, 32)
    assert merged.max_num_seqs_source is CapSource.CONFIG
    logged = EngineFacts(max_num_seqs=64, max_num_seqs_source=CapSource.STARTUP_LOG)
    assert merge_facts(logged, configured).max_num_seqs_source is CapSource.STARTUP_LOG
