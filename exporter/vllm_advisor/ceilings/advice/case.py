"""What an advice rule is given: one deployment's evidence, its ceilings and its flags."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_advisor.ceilings.bound_time import Bound, BoundTime
from vllm_advisor.ceilings.context_limit import ContextLimit
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.headroom import Headroom
from vllm_advisor.ceilings.latency import CurvePoint, LatencyCeiling
from vllm_advisor.ceilings.latency_bounds import LatencyBounds
from vllm_advisor.ceilings.memory import MemoryCeiling
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.evidence.deployment import DeploymentSnapshot
from vllm_advisor.sources.engine_facts import CapSource

__all__ = ["Case", "Flag"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of ``vllm serve``.

    Args:
        recommended: as published; None where the evidence does not support a number.
        configured: what the engine runs with, None where unknown.
        source: where the configured value was learnt, for max-num-seqs.
        candidate: what the evidence says at this moment; it is published once it differs for long enough.
        since_seconds: when the recommended value was published.
    """

    recommended: int | None
    configured: int | None
    grade: Grade
    source: CapSource | None = None
    candidate: int | None = None
    since_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Everything a rule may look at."""

    deployment: DeploymentConfig
    snapshot: DeploymentSnapshot
    context: ContextLimit
    memory: MemoryCeiling
    latency: LatencyCeiling
    latency_bounds: LatencyBounds
    max_model_len: Flag
    max_num_seqs: Flag
    bound_time: BoundTime
    headroom: Headroom | None

    @property
    def is_batch(self) -> bool:
        """Whether there is no latency target."""
        return self.deployment.workload == "batch"

    @property
    def length_tokens(self) -> int | None:
        """The max-model-len that the memory ceiling counts with."""
        return self.max_model_len.recommended or self.max_model_len.configured

    @property
    def cap_at_least(self) -> int | None:
        """The cap, or where it is unknown what was seen running at once, which it cannot be below."""
        return self.max_num_seqs.configured or self.snapshot.occupancy.greatest_running or None

    @property
    def steps_at_cap_ratio(self) -> float | None:
        """Share of engine steps at the configured cap."""
        return self.snapshot.occupancy.steps_at_cap_ratio(self.max_num_seqs.configured)

    @property
    def kv_used_p99_ratio(self) -> float | None:
        """Share of the KV pool in use, at the 0.99 quantile of time."""
        return self.snapshot.occupancy.kv_used_ratio(0.99)

    @property
    def least_loaded(self) -> CurvePoint | None:
        """The point of the latency curve with the fewest sequences that its evidence supports."""
        return self.latency.least_loaded

    @property
    def latency_ceiling_at_most(self) -> int | None:
        """The latency ceiling, or what it cannot be above where the target was met nowhere."""
        return self.latency_bounds.at_most

    @property
    def queue_is_plainer_than_target(self) -> bool:
        """Whether requests wait at the cap, and only a target that nobody set speaks against a higher one."""
        bound = self.bound_time
        waits_longer = bound.ratio_or_zero(Bound.CAP) > bound.ratio_or_zero(Bound.LATENCY)
        return self.deployment.slo.tpot_is_assumed and waits_longer

    @property
    def cap_to_set(self) -> int | None:
        """The one max-num-seqs that advice names: as published, else what the known ceilings allow.

        None where neither says anything, or no cap at all meets the latency target.
        """
        if self.max_num_seqs.recommended is not None:
            return self.max_num_seqs.recommended
        allowed = [one for one in (self.memory.sequences, self.latency_ceiling_at_most) if one is not None]
        return min(allowed, default=0) or None
