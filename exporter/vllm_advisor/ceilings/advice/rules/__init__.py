"""The dispatch table: one rule a code, each in a file of its own name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.rules.cap_above_latency_ceiling import cap_above_latency_ceiling
from vllm_advisor.ceilings.advice.rules.cap_above_memory_ceiling import cap_above_memory_ceiling
from vllm_advisor.ceilings.advice.rules.cap_binds_pool_idle import cap_binds_pool_idle
from vllm_advisor.ceilings.advice.rules.ceilings_far_apart import ceilings_far_apart
from vllm_advisor.ceilings.advice.rules.configuration_diverged import configuration_diverged
from vllm_advisor.ceilings.advice.rules.context_censored import context_censored
from vllm_advisor.ceilings.advice.rules.evidence_stale import evidence_stale
from vllm_advisor.ceilings.advice.rules.evidence_thin import evidence_thin
from vllm_advisor.ceilings.advice.rules.kv_pool_mismatch import kv_pool_mismatch
from vllm_advisor.ceilings.advice.rules.max_model_len_oversized import max_model_len_oversized
from vllm_advisor.ceilings.advice.rules.max_model_len_rejecting import max_model_len_rejecting
from vllm_advisor.ceilings.advice.rules.max_tokens_rejecting import max_tokens_rejecting
from vllm_advisor.ceilings.advice.rules.memory_binds import memory_binds
from vllm_advisor.ceilings.advice.rules.mixed_workloads import mixed_workloads
from vllm_advisor.ceilings.advice.rules.sweep_needed import sweep_needed
from vllm_advisor.ceilings.advice.rules.tpot_slo_missed import tpot_slo_missed
from vllm_advisor.ceilings.advice.rules.traffic_shape_changed import traffic_shape_changed

__all__ = ["RULES", "Rule"]

Rule = Callable[[Case, Thresholds], Advice | None]

RULES: Mapping[Code, Rule] = MappingProxyType(
    {
        Code.CAP_BINDS_POOL_IDLE: cap_binds_pool_idle,
        Code.CAP_ABOVE_LATENCY_CEILING: cap_above_latency_ceiling,
        Code.CAP_ABOVE_MEMORY_CEILING: cap_above_memory_ceiling,
        Code.MEMORY_BINDS: memory_binds,
        Code.CEILINGS_FAR_APART: ceilings_far_apart,
        Code.MAX_MODEL_LEN_OVERSIZED: max_model_len_oversized,
        Code.MAX_MODEL_LEN_REJECTING: max_model_len_rejecting,
        Code.MAX_TOKENS_REJECTING: max_tokens_rejecting,
        Code.CONTEXT_CENSORED: context_censored,
        Code.TPOT_SLO_MISSED: tpot_slo_missed,
        Code.KV_POOL_MISMATCH: kv_pool_mismatch,
        Code.TRAFFIC_SHAPE_CHANGED: traffic_shape_changed,
        Code.MIXED_WORKLOADS: mixed_workloads,
        Code.SWEEP_NEEDED: sweep_needed,
        Code.EVIDENCE_THIN: evidence_thin,
        Code.EVIDENCE_STALE: evidence_stale,
        Code.CONFIGURATION_DIVERGED: configuration_diverged,
    }
)
