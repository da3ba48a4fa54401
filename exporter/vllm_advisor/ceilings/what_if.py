"""Both ceilings under another target, percentile or margin, on other GPUs, or with another KV cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from vllm_advisor.ceilings.grade import Grade, weakest
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.ceilings.recommendation import Recommendation, recommend
from vllm_advisor.config import DeploymentConfig, EngineConfig
from vllm_advisor.config_fields import Section
from vllm_advisor.evidence.deployment import DeploymentSnapshot
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.sweep_file import Sweep

__all__ = ["Change", "Supposed", "what_if"]

Predict = Callable[[EngineConfig, EngineFacts], PoolPrediction | None]


class Change(Section):
    """What is supposed to be otherwise; None for what stays."""

    slo_tpot_ms: Annotated[float, Field(gt=0, le=60_000, allow_inf_nan=False)] | None = None
    slo_quantile: Literal["mean", "0.5", "0.9", "0.95", "0.99", "0.999"] | None = None
    quantile: Annotated[float, Field(ge=0.5, lt=1)] | None = None
    margin: Annotated[float, Field(ge=0, le=10)] | None = None
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    kv_cache_dtype: Literal["auto", "bfloat16", "fp8"] | None = None

    @property
    def is_of_the_engine(self) -> bool:
        """Whether engines would have to be started otherwise, beyond the two flags."""
        return self.gpus is not None or self.kv_cache_dtype is not None


@dataclass(frozen=True, slots=True)
class Supposed:
    """The recommendation under a change, and what to know of it."""

    recommendation: Recommendation
    notes: tuple[str, ...]


def what_if(
    change: Change,
    deployment: DeploymentConfig,
    snapshot: DeploymentSnapshot,
    *,
    predict: Predict,
    sweep: Sweep | None = None,
) -> Supposed:
    """Work the recommendation out as if something were otherwise, on the evidence as it is.

    Latency is measured, never computed: for other GPUs or another KV cache the curve stays today's, and the
    latency ceiling is graded ``assumed`` at best. The pool is carried over by the ratio of its arithmetic.

    Args:
        change: what is otherwise.
        deployment: its configuration.
        snapshot: its evidence.
        predict: gives the pool of an engine by arithmetic, None without a model's config.
        sweep: a measured one, as `recommend` takes it.
    """
    supposed = _changed(change, deployment)
    now = predict(deployment.engine, snapshot.facts)
    if not change.is_of_the_engine:
        return Supposed(recommend(supposed, snapshot, prediction=now, sweep=sweep), ())
    facts = _facts(change, snapshot.facts)
    then = _calibrated(now, predict(supposed.engine, facts), snapshot.facts)
    recommendation = recommend(supposed, replace(snapshot, facts=facts), prediction=then, sweep=sweep)
    return Supposed(_assumed(recommendation), _notes(change, deployment.engine, then))


def _changed(change: Change, deployment: DeploymentConfig) -> DeploymentConfig:
    slo = {"tpot_seconds": change.slo_tpot_ms and change.slo_tpot_ms / 1000, "quantile": _statistic(change)}
    context = {"quantile": change.quantile, "margin_ratio": change.margin}
    return deployment.model_copy(
        update={
            "slo": deployment.slo.model_copy(update=_given(slo)),
            "context": deployment.context.model_copy(update=_given(context)),
            "engine": _changed_engine(change, deployment.engine),
        }
    )


def _changed_engine(change: Change, engine: EngineConfig) -> EngineConfig:
    """Return another engine; the same weights are shared out over other GPUs."""
    ranks, weights_bytes = engine.tensor_parallel_size, engine.weights_memory_bytes
    if change.gpus is not None:
        ranks = max(1, change.gpus // engine.pipeline_parallel_size)
        weights_bytes = weights_bytes and round(weights_bytes * engine.tensor_parallel_size / ranks)
    otherwise = {
        "tensor_parallel_size": ranks,
        "weights_memory_bytes": weights_bytes,
        "kv_cache_dtype": change.kv_cache_dtype,
    }
    return engine.model_copy(update=_given(otherwise))


def _statistic(change: Change) -> float | str | None:
    quantile = change.slo_quantile
    return quantile if quantile is None or quantile == "mean" else float(quantile)


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}


def _facts(change: Change, facts: EngineFacts) -> EngineFacts:
    """Return what would still be true of the engine: its pool is not."""
    return replace(
        facts,
        kv_pool_tokens=None,
        kv_max_concurrency=None,
        num_gpu_blocks=None,
        cache_dtype=change.kv_cache_dtype or facts.cache_dtype,
        tensor_parallel_size=None if change.gpus else facts.tensor_parallel_size,
    )


def _calibrated(
    now: PoolPrediction | None, then: PoolPrediction | None, facts: EngineFacts
) -> PoolPrediction | None:
    """Carry the engine's own pool over: as much larger or smaller as the arithmetic says."""
    if now is None or then is None or facts.num_gpu_blocks is None:
        return then
    if now.flags.tensor_parallel_size == then.flags.tensor_parallel_size:
        ratio = now.layout.bytes_per_block / then.layout.bytes_per_block
    elif now.blocks and then.blocks is not None:
        ratio = then.blocks / now.blocks
    else:
        return then
    blocks = round(facts.num_gpu_blocks * ratio)
    return replace(then, flags=replace(then.flags, num_gpu_blocks_override=blocks))


def _assumed(recommendation: Recommendation) -> Recommendation:
    latency, flag = recommendation.latency, recommendation.max_num_seqs
    return replace(
        recommendation,
        latency=replace(latency, grade=weakest(latency.grade, Grade.ASSUMED)),
        max_num_seqs=replace(flag, grade=weakest(flag.grade, Grade.ASSUMED)),
    )


def _notes(change: Change, engine: EngineConfig, then: PoolPrediction | None) -> tuple[str, ...]:
    notes = ["Latency is today's: it was measured on the engines as they are, and has to be measured again."]
    if then is None:
        notes.append("The pool of another engine follows from the model: give engine.model_config.")
    elif then.blocks is None:
        notes.append(f"The pool does not follow yet: {then.missing} is not known.")
    if change.gpus is not None and change.gpus % engine.pipeline_parallel_size:
        stages = engine.pipeline_parallel_size
        notes.append(f"{change.gpus} GPUs do not divide into {stages} pipeline stages; fewer were taken.")
    return tuple(notes)
