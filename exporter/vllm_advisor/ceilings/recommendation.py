"""From one snapshot of the evidence to both flags, the ceiling that binds, and advice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vllm_advisor.ceilings.advice import Advice, RuleFailure, advise
from vllm_advisor.ceilings.advice.case import Case, Flag
from vllm_advisor.ceilings.batch import batch_context_limit
from vllm_advisor.ceilings.bound_time import BoundTime, bound_time
from vllm_advisor.ceilings.cap import Binding, cap_candidate
from vllm_advisor.ceilings.context_limit import ContextLimit, context_limit
from vllm_advisor.ceilings.grade import Grade, weakest
from vllm_advisor.ceilings.headroom import Headroom, memory_headroom
from vllm_advisor.ceilings.latency import (
    LatencyCeiling,
    combined_ceiling,
    latency_ceiling,
    sweep_ceiling,
)
from vllm_advisor.ceilings.latency_bounds import LatencyBounds, latency_bounds
from vllm_advisor.ceilings.memory import MemoryCeiling, memory_ceiling
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.ceilings.published import (
    Candidate,
    Published,
    PublishedFlag,
    context_candidate,
    settle,
)
from vllm_advisor.config import DeploymentConfig, SloConfig
from vllm_advisor.evidence.deployment import DeploymentSnapshot
from vllm_advisor.evidence.latency import LatencySnapshot
from vllm_advisor.evidence.lengths_distribution import LengthDistribution
from vllm_advisor.sources.engine_facts import CapSource
from vllm_advisor.sources.sweep_file import Sweep

__all__ = ["Binding", "Recommendation", "recommend"]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What a deployment should be started with, and why.

    Args:
        snapshot: the evidence it rests on.
        max_model_len: in tokens.
        max_num_seqs: in sequences on one engine.
        binding: the lower ceiling, also where only a bound of it is known and no number for max_num_seqs.
        latency_bounds: between what the latency ceiling lies.
        prediction: the KV pool by arithmetic, where a model config was given.
        bound_time: where busy time went.
        headroom: what memory holds beside the recommended flags, None where nothing.
        published: what the next evaluation starts from.
        failed_rules: rules of advice that raised instead of answering.
    """

    deployment: DeploymentConfig
    snapshot: DeploymentSnapshot
    max_model_len: Flag
    max_num_seqs: Flag
    binding: Binding
    context: ContextLimit
    memory: MemoryCeiling
    latency: LatencyCeiling
    latency_bounds: LatencyBounds
    prediction: PoolPrediction | None
    bound_time: BoundTime
    headroom: Headroom | None
    published: Published
    advice: tuple[Advice, ...]
    failed_rules: tuple[RuleFailure, ...]


def recommend(
    deployment: DeploymentConfig,
    snapshot: DeploymentSnapshot,
    *,
    prediction: PoolPrediction | None = None,
    sweep: Sweep | None = None,
    previous: Published | None = None,
) -> Recommendation:
    """Work out both flags of a deployment.

    Args:
        deployment: its configuration.
        snapshot: its evidence.
        prediction: its KV pool by arithmetic, where a model config was given.
        sweep: a measured sweep, used where traffic does not settle the latency ceiling.
        previous: what the last evaluation published, which moves only for more than noise (`published`).
    """
    now_seconds, stability = snapshot.now_seconds, deployment.stability
    basis = _basis(deployment, snapshot)
    if previous is None or not previous.holds_for(basis):
        previous = Published(None, None, Binding.NONE, basis)
    limit, length = _context(deployment, snapshot, prediction.model_max_len if prediction else None)
    held_length = settle(previous.max_model_len, length, now_seconds, stability)
    max_model_len = _flag(held_length, length, snapshot.facts.max_model_len, now_seconds)
    memory = _memory(snapshot, prediction, max_model_len)
    latency = _latency(snapshot.latency, deployment.slo, sweep)
    bounds = _bounds(deployment, snapshot, latency)
    cap, binding = cap_candidate(
        deployment,
        snapshot.occupancy,
        memory=memory,
        latency=latency,
        bounds=bounds,
        length_is_known=max_model_len.recommended is not None,
    )
    held_cap = settle(previous.max_num_seqs, cap, now_seconds, stability)
    if held_cap is not None and cap.value is None:
        binding = Binding(previous.binding)
    configured, source = _configured_cap(snapshot)
    max_num_seqs = replace(_flag(held_cap, cap, configured, now_seconds), source=source)
    limit = _at_published(limit, max_model_len, snapshot.context.total)
    case = _case(
        deployment,
        snapshot,
        limit=limit,
        memory=memory,
        latency=latency,
        bounds=bounds,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
    )
    advice, failed = advise(case, deployment.advice)
    return Recommendation(
        deployment=deployment,
        snapshot=snapshot,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        binding=binding,
        context=limit,
        memory=memory,
        latency=latency,
        latency_bounds=bounds,
        prediction=prediction,
        bound_time=case.bound_time,
        headroom=case.headroom,
        published=Published(held_length, held_cap, str(binding), basis),
        advice=advice,
        failed_rules=failed,
    )


def _case(
    deployment: DeploymentConfig,
    snapshot: DeploymentSnapshot,
    *,
    limit: ContextLimit,
    memory: MemoryCeiling,
    latency: LatencyCeiling,
    bounds: LatencyBounds,
    max_model_len: Flag,
    max_num_seqs: Flag,
) -> Case:
    """Return what the rules of advice look at: all that is known, where time went, and what is left over."""
    slo = None if deployment.workload == "batch" else deployment.slo.tpot_seconds
    return Case(
        deployment=deployment,
        snapshot=snapshot,
        context=limit,
        memory=memory,
        latency=latency,
        latency_bounds=bounds,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        bound_time=bound_time(
            snapshot.occupancy,
            cap=max_num_seqs.configured,
            slo_tpot_seconds=slo,
            slo_is_assumed=deployment.slo.tpot_is_assumed,
        ),
        headroom=memory_headroom(
            memory,
            sequences=max_num_seqs.recommended,
            max_model_len=max_model_len.recommended or max_model_len.configured,
        ),
    )


def _basis(deployment: DeploymentConfig, snapshot: DeploymentSnapshot) -> dict[str, str]:
    """Return what makes it another recommendation; what is not known does not."""
    facts, context = snapshot.facts, deployment.context
    said = {
        "workload": deployment.workload,
        "slo": f"{deployment.slo.statistic} {deployment.slo.tpot_seconds:g} s",
        "context": f"{context.quantile:g} x {1 + context.margin_ratio:g} to {context.round_up_to_tokens}",
        "model_name": snapshot.model_name,
        "vllm_version": facts.vllm_version,
        "cache_dtype": facts.cache_dtype,
    }
    return {name: value for name, value in said.items() if value is not None}


def _context(
    deployment: DeploymentConfig, snapshot: DeploymentSnapshot, model_max_len: int | None
) -> tuple[ContextLimit, Candidate]:
    """Return the context limit that the lengths support, and the flag as the evidence has it."""
    config = deployment.context
    limit = context_limit(
        snapshot.context,
        config,
        configured_max_model_len=snapshot.facts.max_model_len,
        model_max_len=model_max_len,
    )
    if deployment.workload == "batch":
        limit = batch_context_limit(limit, snapshot.context, config, model_max_len)
    return limit, context_candidate(limit, snapshot.context.total, config, model_max_len)


def _at_published(limit: ContextLimit, flag: Flag, lengths: LengthDistribution) -> ContextLimit:
    """Say of the published limit, not of the candidate, how many requests are longer."""
    published = flag.recommended
    return (
        limit if published is None else replace(limit, over_recommended_ratio=lengths.over_ratio(published))
    )


def _flag(
    held: PublishedFlag | None, candidate: Candidate, configured: int | None, now_seconds: float
) -> Flag:
    if held is None:
        return Flag(None, configured, Grade.NONE)
    return Flag(
        recommended=held.value,
        configured=configured,
        grade=held.grade_at(now_seconds),
        candidate=candidate.value,
        since_seconds=held.since_seconds,
    )


def _memory(
    snapshot: DeploymentSnapshot, prediction: PoolPrediction | None, max_model_len: Flag
) -> MemoryCeiling:
    memory = memory_ceiling(
        facts=snapshot.facts,
        prediction=prediction,
        max_model_len=max_model_len.recommended or max_model_len.configured,
        lengths=snapshot.context.total,
    )
    if max_model_len.recommended is None:
        return memory
    return replace(memory, grade=weakest(memory.grade, max_model_len.grade))


def _latency(snapshot: LatencySnapshot, slo: SloConfig, sweep: Sweep | None) -> LatencyCeiling:
    """Return traffic's ceiling or the sweep's, the better graded of the two."""
    swept = sweep_ceiling(sweep, slo) if sweep is not None else None
    ceiling = combined_ceiling(latency_ceiling(snapshot, slo), swept)
    if slo.tpot_is_assumed and ceiling.grade is not Grade.NONE:
        ceiling = replace(ceiling, grade=weakest(ceiling.grade, Grade.ASSUMED))
    return ceiling


def _bounds(
    deployment: DeploymentConfig, snapshot: DeploymentSnapshot, latency: LatencyCeiling
) -> LatencyBounds:
    if deployment.workload == "batch":
        return LatencyBounds()
    observed_seconds = deployment.advice.observed_seconds
    return latency_bounds(latency, snapshot.occupancy, deployment.slo, observed_seconds=observed_seconds)


def _configured_cap(snapshot: DeploymentSnapshot) -> tuple[int | None, CapSource | None]:
    """Return today's cap: as read or given, else where running stood still while requests waited."""
    facts, plateau = snapshot.facts, snapshot.occupancy.plateau
    if facts.max_num_seqs is None and plateau is not None:
        return plateau, CapSource.INFERRED
    return facts.max_num_seqs, facts.max_num_seqs_source
