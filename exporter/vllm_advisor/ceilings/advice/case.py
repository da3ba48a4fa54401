"""What an advice rule is given: one deployment's evidence, its ceilings and its flags."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.ceilings.context_limit import ContextLimit
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.latency import LatencyCeiling
from vllm_advisor.ceilings.memory import MemoryCeiling
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.evidence.deployment import DeploymentSnapshot
from vllm_advisor.sources.engine_facts import CapSource

__all__ = ["Case", "Flag"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of ``vllm serve``.

    Args:
        recommended: None where the evidence does not support a number.
        configured: what the engine runs with, None where unknown.
        source: where the configured value was learnt, for max-num-seqs.
    """

    recommended: int | None
    configured: int | None
    grade: Grade
    source: CapSource | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Everything a rule may look at."""

    deployment: DeploymentConfig
    snapshot: DeploymentSnapshot
    context: ContextLimit
    memory: MemoryCeiling
    latency: LatencyCeiling
    max_model_len: Flag
    max_num_seqs: Flag

    @property
    def steps_at_cap_ratio(self) -> float | None:
        """Share of engine steps at the configured cap."""
        return self.snapshot.occupancy.steps_at_cap_ratio(self.max_num_seqs.configured)

    @property
    def kv_used_p99_ratio(self) -> float | None:
        """Share of the KV pool in use, at the 0.99 quantile of time."""
        return self.snapshot.occupancy.kv_used_ratio(0.99)
