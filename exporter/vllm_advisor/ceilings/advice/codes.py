"""The one table of advice codes (design page, "Advice codes")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["SEVERITY", "Advice", "Code", "Severity"]


class Severity(StrEnum):
    """How much an advice matters, as Alertmanager's routes know it."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Code(StrEnum):
    """What can be advised."""

    CAP_BINDS_POOL_IDLE = "cap_binds_pool_idle"
    CAP_ABOVE_LATENCY_CEILING = "cap_above_latency_ceiling"
    CAP_ABOVE_MEMORY_CEILING = "cap_above_memory_ceiling"
    MEMORY_BINDS = "memory_binds"
    CEILINGS_FAR_APART = "ceilings_far_apart"
    MAX_MODEL_LEN_OVERSIZED = "max_model_len_oversized"
    MAX_MODEL_LEN_REJECTING = "max_model_len_rejecting"
    MAX_TOKENS_REJECTING = "max_tokens_rejecting"
    CONTEXT_CENSORED = "context_censored"
    TPOT_SLO_MISSED = "tpot_slo_missed"
    KV_POOL_MISMATCH = "kv_pool_mismatch"
    TRAFFIC_SHAPE_CHANGED = "traffic_shape_changed"
    MIXED_WORKLOADS = "mixed_workloads"
    SWEEP_NEEDED = "sweep_needed"
    EVIDENCE_THIN = "evidence_thin"
    EVIDENCE_STALE = "evidence_stale"
    CONFIGURATION_DIVERGED = "configuration_diverged"


SEVERITY = {
    Code.CAP_BINDS_POOL_IDLE: Severity.WARNING,
    Code.CAP_ABOVE_LATENCY_CEILING: Severity.WARNING,
    Code.CAP_ABOVE_MEMORY_CEILING: Severity.WARNING,
    Code.MEMORY_BINDS: Severity.WARNING,
    Code.CEILINGS_FAR_APART: Severity.INFO,
    Code.MAX_MODEL_LEN_OVERSIZED: Severity.INFO,
    Code.MAX_MODEL_LEN_REJECTING: Severity.WARNING,
    Code.MAX_TOKENS_REJECTING: Severity.WARNING,
    Code.CONTEXT_CENSORED: Severity.WARNING,
    Code.TPOT_SLO_MISSED: Severity.WARNING,
    Code.KV_POOL_MISMATCH: Severity.WARNING,
    Code.TRAFFIC_SHAPE_CHANGED: Severity.INFO,
    Code.MIXED_WORKLOADS: Severity.INFO,
    Code.SWEEP_NEEDED: Severity.INFO,
    Code.EVIDENCE_THIN: Severity.INFO,
    Code.EVIDENCE_STALE: Severity.WARNING,
    Code.CONFIGURATION_DIVERGED: Severity.WARNING,
}


@dataclass(frozen=True, slots=True)
class Advice:
    """One advice.

    Args:
        code: what kind it is.
        seen: one sentence with the numbers it rests on and their window.
        action: one sentence with the flag to type, or what to do.
    """

    code: Code
    seen: str
    action: str

    @property
    def severity(self) -> Severity:
        """How much it matters."""
        return SEVERITY[self.code]

    @property
    def text(self) -> str:
        """Both sentences."""
        return f"{self.seen} {self.action}"
