"""max-num-seqs as the evidence has it at this moment, and the ceiling that it comes from."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from vllm_advisor.ceilings.batch import batch_cap
from vllm_advisor.ceilings.grade import Grade, weakest
from vllm_advisor.ceilings.latency import LatencyCeiling
from vllm_advisor.ceilings.latency_bounds import LatencyBounds
from vllm_advisor.ceilings.memory import MemoryCeiling
from vllm_advisor.ceilings.published import Candidate
from vllm_advisor.config import DeploymentConfig, SloConfig
from vllm_advisor.evidence.load import Short
from vllm_advisor.evidence.occupancy import OccupancySnapshot

__all__ = ["Binding", "cap_candidate"]

_MOSTLY = 0.5


class Binding(StrEnum):
    """The ceiling that decides max-num-seqs."""

    MEMORY = "memory"
    LATENCY = "latency"
    NONE = "none"
    """Not known, or batch work that is not taken up to the memory ceiling: throughput peaks below it, or
    nothing near it was seen."""


def cap_candidate(
    deployment: DeploymentConfig,
    occupancy: OccupancySnapshot,
    *,
    memory: MemoryCeiling,
    latency: LatencyCeiling,
    bounds: LatencyBounds,
    length_is_known: bool,
) -> tuple[Candidate, Binding]:
    """Return the lower ceiling as max-num-seqs, and which it is.

    Where the latency ceiling is not known, memory's decides all the same if the target was met above it.

    Args:
        deployment: its configuration.
        occupancy: what the engines ran into.
        memory: the memory ceiling.
        latency: the latency ceiling.
        bounds: between what that one lies.
        length_is_known: whether the memory ceiling counts with a recommended length.
    """
    tolerance_ratio = deployment.stability.tolerance_ratio
    if deployment.workload == "batch":
        cap = batch_cap(memory, latency.curve, latency.observed_to)
        binding = Binding.MEMORY if cap.by_memory else Binding.NONE
        return _candidate(cap.sequences, cap.grade, tolerance_ratio), binding
    is_comparable = latency.sequences is not None or length_is_known
    if memory.sequences and is_comparable and memory.sequences <= (bounds.at_least or 0):
        grade = weakest(memory.grade, _latency_grade(latency, deployment.slo))
        return _candidate(memory.sequences, grade, tolerance_ratio), Binding.MEMORY
    if latency.sequences is None:
        return _candidate(None, Grade.NONE, tolerance_ratio), _binding_seen(memory, bounds, occupancy)
    if not memory.sequences:
        return _candidate(None, Grade.NONE, tolerance_ratio), Binding.NONE
    candidate = _candidate(latency.sequences, weakest(memory.grade, latency.grade), tolerance_ratio)
    low = min(candidate.low, latency.low or candidate.low)
    high = min(max(candidate.high, latency.high or candidate.high), memory.sequences)
    return replace(candidate, low=low, high=high), Binding.LATENCY


def _binding_seen(memory: MemoryCeiling, bounds: LatencyBounds, occupancy: OccupancySnapshot) -> Binding:
    """Return which ceiling the engines ran into, before there is a number for latency's."""
    if bounds.at_least is not None and occupancy.short_ratio(Short.MEMORY) > _MOSTLY:
        return Binding.MEMORY
    is_below = bounds.at_most is not None and (not memory.sequences or bounds.at_most < memory.sequences)
    return Binding.LATENCY if is_below else Binding.NONE


def _latency_grade(latency: LatencyCeiling, slo: SloConfig) -> Grade:
    """Return what the comparison with the latency ceiling rests on, its bounds having been observed."""
    if latency.sequences is not None:
        return latency.grade
    return Grade.ASSUMED if slo.tpot_is_assumed else Grade.MEASURED


def _candidate(value: int | None, grade: Grade, tolerance_ratio: float) -> Candidate:
    if value is None:
        return Candidate(None, Grade.NONE, 0, 0)
    within = tolerance_ratio * value
    return Candidate(value, grade, low=round(value - within), high=round(value + within))
