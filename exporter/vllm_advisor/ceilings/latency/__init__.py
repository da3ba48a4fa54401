"""The largest concurrency whose time per output token still meets the target: measured, never computed."""

from vllm_advisor.ceilings.latency.combined import combined_ceiling
from vllm_advisor.ceilings.latency.curve import CurvePoint, CurveSource, LatencyCeiling
from vllm_advisor.ceilings.latency.sweep import sweep_ceiling
from vllm_advisor.ceilings.latency.traffic import latency_ceiling

__all__ = [
    "CurvePoint",
    "CurveSource",
    "LatencyCeiling",
    "combined_ceiling",
    "latency_ceiling",
    "sweep_ceiling",
]
