"""What ``plan`` answers: both flags' values and the arithmetic behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vllm_advisor.ceilings.diagnosis import Diagnosis, diagnose
from vllm_advisor.ceilings.engine_version import HYBRID_PREFIX_CACHING, HYBRID_PREFIX_CACHING_DEFAULT
from vllm_advisor.ceilings.kv_pages import Keeps
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.units import format_duration

if TYPE_CHECKING:
    from vllm_advisor.ceilings.latency import LatencyCeiling

__all__ = ["AGREEMENT_RATIO", "PlanAnswer", "PlanQuestion", "answer_plan"]

AGREEMENT_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What is asked besides the engine itself.

    Args:
        max_model_len: the flag as given or logged, -1 for the longest that fits.
        context_tokens: a high percentile of request lengths, from which the limit follows.
        engine_tokens: what the engine reported, at ``reported_len_tokens``.
        latency: what a sweep gave, None without one.
        said: what else there is to say of what was given.
    """

    max_model_len: int | None
    context_tokens: int | None
    margin_ratio: float
    round_up_to_tokens: int
    engine_tokens: int | None
    reported_len_tokens: int | None
    latency: LatencyCeiling | None
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """The answer; None where it does not follow from what was given."""

    prediction: PoolPrediction
    max_model_len: int | None
    tokens: int | None
    max_concurrency: float | None
    memory_ceiling: int | None
    solved_memory_ceiling: int | None
    latency: LatencyCeiling | None
    recommended_max_num_seqs: int | None
    binding: str
    engine_tokens: int | None
    error_ratio: float | None
    diagnosis: Diagnosis | None
    state_slots: int | None
    notes: tuple[str, ...]

    @property
    def lack(self) -> str | None:
        """Why there is no cap, where a GPU, a pool or a sweep was given to work one out from; else None."""
        prediction, length = self.prediction, self.max_model_len
        given = prediction.inputs.gpu_memory_bytes, prediction.blocks, self.latency
        if self.recommended_max_num_seqs is not None or given == (None, None, None):
            return None
        if prediction.blocks is None:
            return f"the pool cannot be sized without {prediction.missing}"
        if length is None:
            return "no --max-model-len is given, none follows from the model or the pool"
        if not self.solved_memory_ceiling:
            return f"the KV pool holds no sequence of {length:,} tokens"
        return "the sweep does not cross the target"

    def to_json(self) -> dict[str, Any]:
        """Return the contract's keys, and a few more."""
        prediction = self.prediction
        layout, flags, pool = prediction.layout, prediction.flags, prediction.pool
        ranks = flags.tensor_parallel_size * flags.pipeline_parallel_size
        return {
            "max_model_len": self.max_model_len,
            "kv_bytes_per_token": layout.model_token_bytes,
            "kv_pool_bytes_per_gpu": pool.expected_bytes if pool else None,
            "kv_pool_bytes": pool.expected_bytes * ranks if pool else None,
            "kv_pool_tokens": self.tokens,
            "max_concurrency": _rounded(self.max_concurrency, 2),
            "memory_ceiling": self.memory_ceiling,
            "latency_ceiling": self.latency.sequences if self.latency else None,
            "recommended_max_num_seqs": self.recommended_max_num_seqs,
            "binding": self.binding,
            "engine_tokens": self.engine_tokens,
            "error_ratio": _rounded(self.error_ratio, 4),
            "diagnosis": self.diagnosis.text if self.diagnosis else None,
            "notes": list(self.notes),
            "kv_pool_bytes_per_gpu_range": [pool.low_bytes, pool.high_bytes] if pool else None,
            "num_gpu_blocks": prediction.blocks,
            "bytes_per_block": layout.bytes_per_block,
            "block_size_tokens": layout.block_size_tokens,
            "blocks_per_request": layout.blocks_per_request(self.max_model_len)
            if self.max_model_len
            else None,
            "memory_ceiling_with_its_own_cap": self.solved_memory_ceiling,
            "state_slots": self.state_slots,
            "memory_bytes": {share.name: share.size.expected_bytes for share in prediction.shares},
        }


def answer_plan(prediction: PoolPrediction, question: PlanQuestion) -> PlanAnswer:
    """Work everything out that follows from a prediction and what was asked."""
    notes = [*prediction.model.notes, *question.said]
    length = _max_model_len(prediction, question, notes)
    ceiling = prediction.sequences(length) if length else None
    solved = prediction.largest_cap(length) if length else None
    recommended, binding = _recommended(question, solved, notes)
    error, diagnosis = _compared(prediction, question, length)
    _note_pool(prediction, length, notes)
    _note_defaults(prediction, notes)
    _note_cap(prediction, length, ceiling, solved, notes)
    slots = _state_slots(prediction)
    _note_states(prediction, slots, notes)
    return PlanAnswer(
        prediction=prediction,
        max_model_len=length,
        tokens=prediction.tokens(length) if length else None,
        max_concurrency=prediction.max_concurrency(length) if length else None,
        memory_ceiling=ceiling,
        solved_memory_ceiling=solved,
        latency=question.latency,
        recommended_max_num_seqs=recommended,
        binding=binding,
        engine_tokens=question.engine_tokens,
        error_ratio=error,
        diagnosis=diagnosis,
        state_slots=slots,
        notes=tuple(notes),
    )


def _max_model_len(prediction: PoolPrediction, question: PlanQuestion, notes: list[str]) -> int | None:
    longest = prediction.model_max_len
    if question.context_tokens is not None:
        wanted = question.context_tokens * (1 + Fraction(str(question.margin_ratio)))
        step = question.round_up_to_tokens
        length = math.ceil(wanted / step) * step
        if longest is not None and length > longest:
            notes.append(f"The traffic asks for {length:,} tokens, and the model was made for {longest:,}.")
            return longest
        return length
    if question.max_model_len == -1:
        if prediction.blocks is None or longest is None:
            return None
        return prediction.layout.longest_request_tokens(prediction.blocks, longest) or None
    if question.max_model_len is None and longest is not None:
        notes.append(
            f"No --max-model-len was given; the model's own maximum of {longest:,} tokens was taken."
        )
    elif question.max_model_len is not None and longest is not None and question.max_model_len > longest:
        notes.append(
            f"The model was made for {longest:,} tokens: vLLM refuses a longer --max-model-len unless "
            "the config scales its positions (rope), or VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set."
        )
    return question.max_model_len or longest


def _recommended(question: PlanQuestion, solved: int | None, notes: list[str]) -> tuple[int | None, str]:
    """Return max-num-seqs and the ceiling it comes from."""
    latency = question.latency
    if latency is not None and latency.sequences is None:
        return _without_crossing(latency, solved, notes)
    if solved is None:
        return None, "none"
    if latency is None:
        notes.append("No sweep was given: the recommended cap is the memory ceiling alone.")
    elif latency.sequences is not None and latency.sequences < solved:
        return latency.sequences, "latency"
    return (solved, "memory") if solved else (None, "memory")


def _without_crossing(
    latency: LatencyCeiling, solved: int | None, notes: list[str]
) -> tuple[int | None, str]:
    target = f"a {latency.statistic} time per output token of {format_duration(latency.slo_tpot_seconds)}"
    if latency.high is not None:
        notes.append(
            f"The sweep misses {target} at every level, at {latency.high + 1:,} sequences already, "
            "so it gives no latency ceiling."
        )
        return None, "none"
    observed_to = latency.observed_to or 0
    notes.append(
        f"The sweep meets {target} at every level, up to {observed_to:,} sequences, "
        "so the latency ceiling lies above it."
    )
    return (solved, "memory") if solved and solved <= observed_to else (None, "none")


def _compared(
    prediction: PoolPrediction, question: PlanQuestion, length: int | None
) -> tuple[float | None, Diagnosis | None]:
    """Hold the predicted tokens against the engine's, at the engine's own length."""
    at = question.reported_len_tokens or length
    predicted = prediction.tokens(at) if at else None
    if not question.engine_tokens or predicted is None or at is None:
        return None, None
    error = predicted / question.engine_tokens - 1
    if abs(error) <= AGREEMENT_RATIO:
        return error, None
    return error, diagnose(prediction, question.engine_tokens, at)


def _note_pool(prediction: PoolPrediction, length: int | None, notes: list[str]) -> None:
    layout, pool = prediction.layout, prediction.pool
    if prediction.missing:
        notes.append(f"The pool cannot be sized without {prediction.missing}.")
    if pool is not None and pool.expected_bytes <= 0:
        notes.append(
            f"Nothing is left for the KV cache: the pool comes out at {pool.expected_bytes / 2**30:.2f} GiB."
        )
    elif pool is not None and layout.is_plain and not prediction.is_exact and prediction.blocks:
        whole = prediction.blocks * layout.block_size_tokens * layout.context_ranks
        notes.append(f"{whole:,} tokens in whole blocks of {layout.block_size_tokens}, as an engine counts.")
    if layout.padding_layers:
        notes.append(
            f"Layer groups are of one width: {layout.padding_layers} layers' worth of each block is wasted."
        )
    if length and not layout.is_plain and prediction.blocks:
        notes.append(
            "The token count is a concurrency in token units at this length; it cannot be divided by another."
        )


def _note_defaults(prediction: PoolPrediction, notes: list[str]) -> None:
    flags = prediction.flags
    if prediction.inputs.gpu_memory_bytes is not None and flags.takes_large_defaults:
        notes.append(
            f"A GPU of this size was taken for an H100 or newer, whose defaults are --max-num-seqs "
            f"{flags.sequences} and --max-num-batched-tokens {flags.batched_tokens}; an A100's are 256 and "
            "2048: give both on one."
        )


def _note_states(prediction: PoolPrediction, slots: int | None, notes: list[str]) -> None:
    if slots is not None:
        notes.append(f"State layers hold {slots:,} sequences at most, however short they are.")
    flags = prediction.flags
    opt_in = HYBRID_PREFIX_CACHING <= flags.version < HYBRID_PREFIX_CACHING_DEFAULT
    if slots is not None and flags.prefix_caching is None and opt_in:
        notes.append(
            "Prefix caching is taken to be on; with --no-enable-prefix-caching each state takes a block less."
        )


def _note_cap(
    prediction: PoolPrediction, length: int | None, ceiling: int | None, solved: int | None, notes: list[str]
) -> None:
    blocks = prediction.blocks
    if ceiling and length and blocks and ceiling * prediction.layout.blocks_per_request(length) > blocks - 1:
        notes.append(
            "One block is the engine's placeholder, so the last full-length sequence lacks a block and waits."
        )
    stages = prediction.flags.pipeline_parallel_size
    if stages > 1:
        notes.append(f"Each of the {stages} pipeline stages runs a part of the cap at a time.")
    if solved and length and solved != ceiling:
        at_cap = prediction.with_max_num_seqs(solved)
        notes.append(
            f"With --max-num-seqs {solved} the pool is {at_cap.tokens(length):,} tokens: "
            "fewer sequences to profile leave more memory."
        )


def _state_slots(prediction: PoolPrediction) -> int | None:
    groups = prediction.layout.groups
    blocks = sum(group.state_blocks for group in groups if group.keeps is Keeps.STATE)
    return (prediction.blocks - 1) // blocks if blocks and prediction.blocks else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
