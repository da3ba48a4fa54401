"""The memory ceiling: how many sequences of a length the KV pool holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from vllm_advisor.ceilings.diagnosis import Diagnosis, diagnose
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.kv_group import KvLayout
from vllm_advisor.ceilings.kv_pages import Keeps
from vllm_advisor.ceilings.overflow import sequences_that_fit
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.evidence.lengths_distribution import LengthDistribution
from vllm_advisor.sources.engine_facts import EngineFacts

__all__ = ["AGREEMENT_RATIO", "MemoryCeiling", "memory_ceiling"]

AGREEMENT_RATIO = 0.05
"""A prediction this near to the engine's report agrees with it."""
_LAYOUT_RATIO = 0.01


@dataclass(frozen=True, slots=True)
class MemoryCeiling:
    """The memory ceiling of one engine and how its arithmetic compares with the engine's report.

    Args:
        sequences: of full length; None where the evidence does not say, with ``reason``.
        expected_sequences: of the observed lengths, over the pool in less than one case of a thousand.
        engine_tokens: what the engine reports, at its own max-model-len.
        predicted_tokens: the same by arithmetic; at the candidate length where the engine's is not known.
        error_ratio: predicted over reported, less one.
        bytes_per_token: over all ranks.
        hard_limit_sequences: what state layers hold at most, however short the sequences.
        hard_limit_reason: where such a limit comes from.
        micro_batches: pipeline stages, each of which runs a part of the cap at a time; None without.
        diagnosis: what would explain a prediction that does not agree.
    """

    sequences: int | None
    grade: Grade
    expected_sequences: int | None = None
    engine_tokens: int | None = None
    predicted_tokens: int | None = None
    error_ratio: float | None = None
    bytes_per_token: int | None = None
    hard_limit_sequences: int | None = None
    hard_limit_reason: str | None = None
    micro_batches: int | None = None
    diagnosis: Diagnosis | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Pool:
    """A pool in blocks, and what a request of a length takes of it."""

    blocks: int
    layout: KvLayout | None
    block_size_tokens: int

    def need(self, length_tokens: int) -> int:
        if self.layout is not None:
            return self.layout.blocks_per_request(length_tokens)
        return math.ceil(length_tokens / self.block_size_tokens)


def memory_ceiling(
    *,
    facts: EngineFacts,
    prediction: PoolPrediction | None,
    max_model_len: int | None,
    lengths: LengthDistribution | None,
) -> MemoryCeiling:
    """Return how many sequences one engine's pool holds at a candidate max-model-len.

    The engine's own report decides where there is one. Blocks a request are worked out group by group at the
    candidate length, since the token line of sliding-window and hybrid models is a concurrency in token units
    at today's length and cannot be divided by another.

    Args:
        facts: what the engine says of itself.
        prediction: the model's layout, and its pool where it could be worked out.
        max_model_len: the candidate, in tokens.
        lengths: of the observed requests.
    """
    ceiling = _compared(facts, prediction, max_model_len)
    if max_model_len is None:
        return replace(ceiling, reason="no max-model-len is known to hold the pool against")
    pool, grade, reason = _pool(facts, prediction)
    if pool is None:
        if facts.kv_max_concurrency and facts.max_model_len == max_model_len:
            sequences = math.floor(facts.kv_max_concurrency)
            return replace(ceiling, sequences=sequences, grade=Grade.MEASURED)
        return replace(ceiling, reason=reason)
    hard_limit, limit_reason = _hard_limit(pool)
    return replace(
        ceiling,
        sequences=math.floor(pool.blocks / pool.need(max_model_len)),
        grade=grade,
        expected_sequences=_expected(pool, max_model_len, lengths),
        hard_limit_sequences=hard_limit,
        hard_limit_reason=limit_reason,
        reason=reason,
    )


def _compared(
    facts: EngineFacts, prediction: PoolPrediction | None, max_model_len: int | None
) -> MemoryCeiling:
    """Hold the predicted pool against the reported one, both at today's max-model-len, else the candidate."""
    engine_tokens = facts.kv_pool_tokens or _tokens_in_blocks(facts)
    ceiling = partial(MemoryCeiling, None, Grade.NONE, engine_tokens=engine_tokens)
    if prediction is None:
        return ceiling()
    length = facts.max_model_len or max_model_len
    predicted = prediction.tokens(length) if length else None
    error = None
    if predicted is not None and engine_tokens and facts.max_model_len:
        error = predicted / engine_tokens - 1
    disagrees = error is not None and abs(error) > AGREEMENT_RATIO
    return ceiling(
        predicted_tokens=predicted,
        error_ratio=error,
        bytes_per_token=prediction.layout.model_token_bytes,
        micro_batches=stages if (stages := prediction.flags.pipeline_parallel_size) > 1 else None,
        diagnosis=diagnose(prediction, engine_tokens, facts.max_model_len)
        if disagrees and engine_tokens and facts.max_model_len
        else None,
    )


def _tokens_in_blocks(facts: EngineFacts) -> int | None:
    if facts.num_gpu_blocks and facts.block_size_tokens:
        return facts.num_gpu_blocks * facts.block_size_tokens
    return None


def _pool(facts: EngineFacts, prediction: PoolPrediction | None) -> tuple[_Pool | None, Grade, str | None]:
    """Return the pool to count in, how well it is known, and what is unsure about it."""
    block_size = facts.block_size_tokens or 16
    if facts.num_gpu_blocks and prediction and _same_layout(facts, prediction.layout):
        return _Pool(facts.num_gpu_blocks, prediction.layout, block_size), Grade.MEASURED, None
    if facts.num_gpu_blocks and _reports_plain_blocks(facts):
        return _Pool(facts.num_gpu_blocks, None, block_size), Grade.MEASURED, None
    if facts.kv_pool_tokens:
        reason = (
            "the engine reports a pool of several kinds of layers, and its token line cannot be carried to "
            "another length without the model's config"
        )
        return None, Grade.NONE, reason
    if facts.num_gpu_blocks:
        reason = (
            "blocks were taken for full attention: this version's page does not say how layers share them"
        )
        return _Pool(facts.num_gpu_blocks, None, block_size), Grade.ASSUMED, reason
    if prediction is not None and prediction.blocks is not None:
        reason = "the pool is predicted; the engine's own report was not seen"
        return _Pool(prediction.blocks, prediction.layout, block_size), Grade.ASSUMED, reason
    return None, Grade.NONE, "no engine reported its KV pool, and none could be predicted"


def _same_layout(facts: EngineFacts, layout: KvLayout) -> bool:
    """Whether blocks a request, which no byte count enters, come out as the engine has them."""
    if not (facts.num_gpu_blocks and facts.kv_max_concurrency and facts.max_model_len):
        return False
    concurrency = layout.max_concurrency(facts.num_gpu_blocks, facts.max_model_len)
    return abs(concurrency / facts.kv_max_concurrency - 1) < _LAYOUT_RATIO


def _reports_plain_blocks(facts: EngineFacts) -> bool:
    """Whether the token line is blocks times block size, as only one group of full attention gives.

    A model of states alone has blocks as long as max-model-len, and says the same without meaning it.
    """
    blocks, size = facts.num_gpu_blocks, facts.block_size_tokens
    if not blocks or not size or not facts.kv_pool_tokens:
        return False
    if facts.max_model_len is not None and size >= facts.max_model_len:
        return False
    if facts.max_model_len is None:
        return facts.kv_pool_tokens == blocks * size
    concurrency = blocks / math.ceil(facts.max_model_len / size)
    return abs(concurrency * facts.max_model_len - facts.kv_pool_tokens) <= 1


def _expected(pool: _Pool, max_model_len: int, lengths: LengthDistribution | None) -> int | None:
    """Count on the observed lengths, those over the candidate cut to it; one block is the placeholder's."""
    if lengths is None or not lengths.requests:
        return None
    seen = lengths.counts > 0
    tokens = np.minimum(np.ceil(lengths.values_tokens[seen]), max_model_len)
    needs = np.array([pool.need(max(1, int(length))) for length in tokens], dtype=np.float64)
    return sequences_that_fit(needs, lengths.counts[seen], pool.blocks - 1)


def _hard_limit(pool: _Pool) -> tuple[int | None, str | None]:
    """Say how many sequences' states fit, whatever their length; nothing without state layers."""
    groups = pool.layout.groups if pool.layout else ()
    each = sum(group.state_blocks for group in groups if group.keeps is Keeps.STATE)
    if not each:
        return None, None
    reason = f"({pool.blocks:,} blocks - 1) / {each:,} blocks of a sequence's states, however short it is"
    return max(0, pool.blocks - 1) // each, reason
