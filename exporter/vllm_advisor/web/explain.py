"""One evaluation, redone step by step: inputs, intermediate numbers, thresholds and the decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.ceilings.recommendation import Binding, Recommendation
from vllm_advisor.sources.model_config.caches import AttentionCache
from vllm_advisor.web.recommendation_json import vllm_args

__all__ = ["Step", "explanation", "steps"]


@dataclass(frozen=True, slots=True)
class Step:
    """One row that a person can redo with a pocket calculator.

    Args:
        name: what it is; the unit is at its end.
        value: None where it does not follow.
        formula: how it follows from the rows above, with their numbers.
    """

    name: str
    value: float | None
    formula: str


def explanation(recommendation: Recommendation) -> dict[str, Any]:
    """Return the steps, the thresholds and the decision as plain JSON values."""
    deployment = recommendation.deployment
    return {
        "steps": [asdict(step) for step in steps(recommendation)],
        "thresholds": deployment.advice.model_dump(mode="json"),
        "stability": deployment.stability.model_dump(mode="json"),
        "published": recommendation.published.state(),
        "failed_rules": [asdict(failure) for failure in recommendation.failed_rules],
        "decision": _decision(recommendation),
    }


def steps(recommendation: Recommendation) -> tuple[Step, ...]:
    """Return every row from the GPU's memory to max-num-seqs, in the order in which they follow."""
    prediction = recommendation.prediction
    return (
        *(_pool(prediction) if prediction is not None else ()),
        *_context(recommendation),
        *_memory(recommendation),
        *_latency(recommendation),
        *_cap(recommendation),
    )


def _pool(prediction: PoolPrediction) -> Iterator[Step]:
    flags, inputs = prediction.flags, prediction.inputs
    if inputs.gpu_memory_bytes is not None and inputs.kv_cache_memory_bytes is None:
        usable = f"{inputs.gpu_memory_bytes:,} x {flags.utilization_ratio:g}"
        left_alone = next((s.size.expected_bytes for s in prediction.shares if "utilization" in s.name), 0)
        yield Step("usable_bytes_per_gpu", inputs.gpu_memory_bytes - left_alone, usable)
    for share in prediction.shares:
        if "utilization" not in share.name:
            name = f"{share.name.replace(' ', '_').lower()}_bytes_per_gpu"
            yield Step(name, share.size.expected_bytes, share.size.basis)
    if prediction.pool is not None:
        pool_bytes, ranks = prediction.pool.expected_bytes, _ranks(prediction)
        yield Step("kv_pool_bytes_per_gpu", pool_bytes, "usable, less everything above")
        yield Step("kv_pool_bytes", pool_bytes * ranks, f"{pool_bytes:,} x {ranks} GPUs")
    yield Step("kv_bytes_per_token", prediction.layout.model_token_bytes, _token_formula(prediction))
    yield from _tokens(prediction)


def _tokens(prediction: PoolPrediction) -> Iterator[Step]:
    layout = prediction.layout
    if prediction.pool is None or not layout.is_plain:
        return
    total_bytes = prediction.pool.expected_bytes * _ranks(prediction)
    token_bytes = layout.model_token_bytes
    yield Step(
        "kv_pool_tokens",
        max(0, total_bytes) // token_bytes,
        f"{total_bytes:,} / {token_bytes:,}, rounded down",
    )
    if prediction.blocks is not None:
        formula = f"{prediction.blocks:,} whole blocks x {layout.block_size_tokens}"
        tokens = prediction.blocks * layout.block_size_tokens * layout.context_ranks
        yield Step("kv_pool_whole_block_tokens", tokens, formula)


def _context(recommendation: Recommendation) -> Iterator[Step]:
    context, config = recommendation.context, recommendation.deployment.context
    requests = f"of {recommendation.snapshot.context.requests:,} requests"
    for name in ("p50", "p90", "p99", "p999"):
        yield Step(f"context_{name}_tokens", getattr(context, name), requests)
    if context.quantile_tokens is not None:
        rounded = f"up to a multiple of {config.round_up_to_tokens:,}"
        formula = f"{context.quantile_tokens:,.0f} x {1 + config.margin_ratio:g}, {rounded}"
        yield Step("candidate_max_model_len_tokens", recommendation.max_model_len.candidate, formula)
    length = recommendation.max_model_len.recommended
    yield Step("max_model_len_tokens", length, "the candidate, once it differs by more than its uncertainty")
    prediction = recommendation.prediction
    longest = prediction.model_max_len if prediction else None
    if longest is not None and length:
        yield Step("model_max_len_tokens", longest, "the model's config")
        yield Step("model_max_len_ratio", longest / length, f"{longest:,} / {length:,}")


def _memory(recommendation: Recommendation) -> Iterator[Step]:
    memory = recommendation.memory
    yield Step("engine_kv_pool_tokens", memory.engine_tokens, "as the engine reports it")
    yield Step("kv_pool_prediction_error_ratio", memory.error_ratio, "predicted / engine - 1")
    pool_tokens = memory.engine_tokens or memory.predicted_tokens
    length = recommendation.max_model_len.recommended or recommendation.max_model_len.configured
    divided = f"{pool_tokens:,} / {length:,}, rounded down" if pool_tokens and length else "nothing to divide"
    prediction = recommendation.prediction
    if prediction is not None and not prediction.layout.is_plain:
        divided = "blocks / blocks a request, group by group, rounded down"
    yield Step("memory_ceiling_sequences", memory.sequences, divided)
    expected = "largest number whose summed length exceeds the pool in under 0.1% of cases"
    yield Step("expected_memory_ceiling_sequences", memory.expected_sequences, expected)
    if memory.hard_limit_reason is not None:
        yield Step("hard_limit_sequences", memory.hard_limit_sequences, memory.hard_limit_reason)


def _latency(recommendation: Recommendation) -> Iterator[Step]:
    latency = recommendation.latency
    if recommendation.deployment.workload != "batch":
        yield Step("slo_tpot_seconds", latency.slo_tpot_seconds, f"configured, for the {latency.statistic}")
    for point in latency.curve:
        rate = f"{1 / point.tpot_seconds:.4g} tokens/s a user, from {point.source}"
        yield Step(f"tpot_at_{point.concurrency:g}_sequences_seconds", point.tpot_seconds, rate)
    crossing = "where the curve crosses the target, linear between points, rounded down"
    yield Step("latency_ceiling_sequences", latency.sequences, crossing)
    bounds = recommendation.latency_bounds
    if latency.sequences is None and bounds.at_least is not None:
        met = "what ran while the target was met"
        yield Step("latency_ceiling_at_least_sequences", bounds.at_least, met)
    if latency.sequences is None and bounds.at_most is not None:
        missed = "what ran x target / time per output token, where the target was met nowhere"
        yield Step("latency_ceiling_at_most_sequences", bounds.at_most, missed)


def _cap(recommendation: Recommendation) -> Iterator[Step]:
    cap, memory, latency = recommendation.max_num_seqs, recommendation.memory, recommendation.latency
    at_least = f"at least {recommendation.latency_bounds.at_least}"
    formula = f"min({memory.sequences}, {at_least if latency.sequences is None else latency.sequences})"
    if recommendation.deployment.workload == "batch":
        formula = "the expected memory ceiling, or where throughput grows no further"
    elif cap.candidate is None:
        formula = "needs both ceilings"
    yield Step("candidate_max_num_seqs_sequences", cap.candidate, formula)
    held = "the candidate, once it differs by more than its uncertainty"
    yield Step("max_num_seqs_sequences", cap.recommended, held)
    if memory.micro_batches and cap.recommended is not None:
        part = f"{cap.recommended} / {memory.micro_batches} pipeline stages, which take turns"
        yield Step("micro_batch_sequences", cap.recommended / memory.micro_batches, part)
    if recommendation.headroom is not None:
        spare = f"pool - {cap.recommended} x {recommendation.max_model_len.recommended}"
        yield Step("memory_headroom_tokens", recommendation.headroom.spare_tokens, spare)


def _decision(recommendation: Recommendation) -> dict[str, Any]:
    reasons = {
        Binding.LATENCY: "the latency ceiling is below the memory ceiling",
        Binding.MEMORY: "the memory ceiling is the lower one",
        Binding.NONE: "no ceiling decides: one is not known, or batch work stays near what was seen",
    }
    return {
        "vllm_args": vllm_args(recommendation),
        "binding": recommendation.binding,
        "because": reasons[recommendation.binding],
        "grades": {
            "max_model_len": recommendation.max_model_len.grade,
            "max_num_seqs": recommendation.max_num_seqs.grade,
        },
    }


def _ranks(prediction: PoolPrediction) -> int:
    return prediction.flags.tensor_parallel_size * prediction.flags.pipeline_parallel_size


def _token_formula(prediction: PoolPrediction) -> str:
    """Write out the product where every layer is alike, as of most models."""
    caches = prediction.model.caches
    first = caches[0] if caches else None
    alike = all(isinstance(one, AttentionCache) and _shape(one) == _shape(caches[0]) for one in caches)
    if not isinstance(first, AttentionCache) or not alike:
        return "summed over the layers, replicated heads and vectors counted on each rank"
    elements = len(caches) * first.kv_heads * (first.key_width + first.value_width)
    element_bytes = prediction.layout.model_token_bytes / elements
    return (
        f"{len(caches)} layers x {first.kv_heads} KV heads x ({first.key_width} + {first.value_width}) "
        f"for K and V x {element_bytes:g} bytes"
    )


def _shape(cache: object) -> tuple[int, int, int] | None:
    if not isinstance(cache, AttentionCache):
        return None
    return cache.kv_heads, cache.key_width, cache.value_width
