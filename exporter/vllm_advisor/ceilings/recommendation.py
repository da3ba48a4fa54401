"""From one snapshot of the evidence to both flags, the ceiling that binds, and advice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from vllm_advisor.ceilings.advice import Advice, advise
from vllm_advisor.ceilings.advice.case import Case, Flag
from vllm_advisor.ceilings.context_limit import ContextLimit, context_limit
from vllm_advisor.ceilings.grade import Grade, weakest
from vllm_advisor.ceilings.latency import LatencyCeiling, latency_ceiling, sweep_ceiling
from vllm_advisor.ceilings.memory import MemoryCeiling, memory_ceiling
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.config import DeploymentConfig, SloConfig
from vllm_advisor.evidence.deployment import DeploymentSnapshot
from vllm_advisor.evidence.latency import LatencySnapshot
from vllm_advisor.sources.engine_facts import CapSource
from vllm_advisor.sources.sweep_file import Sweep

__all__ = ["Binding", "Recommendation", "recommend"]


class Binding(StrEnum):
    """The ceiling that decides max-num-seqs."""

    MEMORY = "memory"
    LATENCY = "latency"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What a deployment should be started with, and why.

    Args:
        snapshot: the evidence it rests on.
        max_model_len: in tokens.
        max_num_seqs: in sequences on one engine.
        binding: which ceiling max_num_seqs comes from.
    """

    deployment: DeploymentConfig
    snapshot: DeploymentSnapshot
    max_model_len: Flag
    max_num_seqs: Flag
    binding: Binding
    context: ContextLimit
    memory: MemoryCeiling
    latency: LatencyCeiling
    advice: tuple[Advice, ...]


def recommend(
    deployment: DeploymentConfig,
    snapshot: DeploymentSnapshot,
    *,
    prediction: PoolPrediction | None = None,
    sweep: Sweep | None = None,
) -> Recommendation:
    """Work out both flags of a deployment.

    Args:
        deployment: its configuration.
        snapshot: its evidence.
        prediction: its KV pool by arithmetic, where a model config was given.
        sweep: a measured sweep, used where traffic does not settle the latency ceiling.
    """
    facts = snapshot.facts
    limit = context_limit(
        snapshot.context,
        deployment.context,
        configured_max_model_len=facts.max_model_len,
        model_max_len=prediction.model_max_len if prediction else None,
    )
    max_model_len = Flag(limit.max_model_len, facts.max_model_len, limit.grade)
    memory = memory_ceiling(
        facts=facts,
        prediction=prediction,
        max_model_len=limit.max_model_len or facts.max_model_len,
        lengths=snapshot.context.total,
    )
    if max_model_len.recommended is not None:
        memory = replace(memory, grade=weakest(memory.grade, limit.grade))
    latency = _latency(snapshot.latency, deployment.slo, sweep)
    cap, source = facts.max_num_seqs, facts.max_num_seqs_source
    if cap is None and snapshot.occupancy.plateau is not None:
        cap, source = snapshot.occupancy.plateau, CapSource.INFERRED
    sequences, grade, binding = _sequences(deployment, memory, latency)
    max_num_seqs = Flag(sequences, cap, grade, source)
    case = Case(deployment, snapshot, limit, memory, latency, max_model_len, max_num_seqs)
    return Recommendation(
        deployment, snapshot, max_model_len, max_num_seqs, binding, limit, memory, latency, advise(case)
    )


def _latency(snapshot: LatencySnapshot, slo: SloConfig, sweep: Sweep | None) -> LatencyCeiling:
    """Traffic's ceiling where it is measured, else the sweep's, else the better graded of the two."""
    ceiling = latency_ceiling(snapshot, slo)
    if sweep is not None and ceiling.grade is not Grade.MEASURED:
        swept = sweep_ceiling(sweep, slo)
        if weakest(ceiling.grade, swept.grade) is ceiling.grade:
            ceiling = swept
    if slo.tpot_is_assumed and ceiling.grade is not Grade.NONE:
        ceiling = replace(ceiling, grade=weakest(ceiling.grade, Grade.ASSUMED))
    return ceiling


def _sequences(
    deployment: DeploymentConfig, memory: MemoryCeiling, latency: LatencyCeiling
) -> tuple[int | None, Grade, Binding]:
    """Return max-num-seqs, its grade, and the ceiling it comes from."""
    if deployment.workload == "batch":
        if memory.expected_sequences is None:
            return None, Grade.NONE, Binding.NONE
        return memory.expected_sequences, memory.grade, Binding.MEMORY
    if memory.sequences is None or latency.sequences is None:
        return None, Grade.NONE, Binding.NONE
    grade = weakest(memory.grade, latency.grade)
    if memory.sequences <= latency.sequences:
        return memory.sequences, grade, Binding.MEMORY
    return latency.sequences, grade, Binding.LATENCY
