"""Engines of one deployment, or the configuration and the engines, say different things."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import tokens
from vllm_advisor.evidence.deployment import EngineSnapshot
from vllm_advisor.sources.engine_facts import EngineFacts

__all__ = ["configuration_diverged"]

_NAMES = {
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "cache_dtype": "KV dtype",
    "gpu_memory_utilization_ratio": "--gpu-memory-utilization",
    "vllm_version": "vLLM",
}
_POOL_RATIO = 0.1
"""Pools of like engines differ by less, since each is profiled anew at its start."""
_NAMED = 3


def configuration_diverged(case: Case, _at: Thresholds) -> Advice | None:
    """Name the engines that differ and in what, and what was configured otherwise than it is."""
    found = [*_between_engines(case), *_against_configuration(case)]
    if not found:
        return None
    named = "; ".join(found[:_NAMED]) + (f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
    action = (
        "Give all engines of the deployment the same flags, version and GPU, or make deployments of their "
        "own; until then expect only those that agree to count, and what is read off them to win."
    )
    return Advice(Code.CONFIGURATION_DIVERGED, f"Not everything agrees: {named}.", action)


def _between_engines(case: Case) -> Iterator[str]:
    common = case.snapshot.facts
    for engine in case.snapshot.engines:
        if differing := list(_differing(engine, common, case.snapshot.model_name)):
            yield f"{engine.engine_id} has {', '.join(differing)}"


def _differing(engine: EngineSnapshot, common: EngineFacts, model_name: str | None) -> Iterator[str]:
    if model_name is not None and engine.model_name != model_name:
        yield f"model {engine.model_name} where others have {model_name}"
    for field, name in _NAMES.items():
        own, others = getattr(engine.facts, field), getattr(common, field)
        if own is not None and others is not None and own != others:
            yield f"{name} {own} where others have {others}"
    own_pool, pool = engine.facts.kv_pool_tokens, common.kv_pool_tokens
    if own_pool and pool and own_pool > pool * (1 + _POOL_RATIO):
        yield f"a KV pool of {tokens(own_pool)} tokens where another has {tokens(pool)}, as of another GPU"


def _against_configuration(case: Case) -> Iterator[str]:
    engine, facts = case.deployment.engine, case.snapshot.facts
    given = {
        "max_model_len": engine.max_model_len,
        "max_num_seqs": engine.max_num_seqs,
        "cache_dtype": engine.kv_cache_dtype,
        "gpu_memory_utilization_ratio": engine.gpu_memory_utilization_ratio,
        "vllm_version": engine.vllm_version,
    }
    for field, value in given.items():
        read = getattr(facts, field)
        if value is not None and read is not None and value != read:
            yield f"{_NAMES[field]} is configured as {value} and read as {read}"
